"""Losses and scores by name, against scikit-learn and torch; shapes that do not fit are refused."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from sklearn import metrics
from torch import Tensor

from leanformer.tasks import measures
from leanformer.tasks.measures import LOSSES, OverClasses, Score, aligned, matched, named


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def classes(*shape: int, count: int = 3, seed: int = 1) -> Tensor:
    return torch.randint(count, shape, generator=torch.Generator().manual_seed(seed))


def padded() -> Tensor:
    tokens = classes(4, 5)
    tokens[0, 2:], tokens[3, 4:] = measures.IGNORED, measures.IGNORED
    return tokens


@pytest.mark.parametrize(
    ("name", "outputs", "targets", "expected"),
    [
        ("cross-entropy", drawn(6, 3), classes(6), F.cross_entropy),
        ("cross-entropy", drawn(6, 3), drawn(6, 3, seed=2).softmax(-1), F.cross_entropy),
        ("cross-entropy", drawn(4, 5, 3), padded(), lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten())),
        ("cross-entropy", drawn(2, 3, 4, 5), classes(2, 4, 5), F.cross_entropy),
        ("cross-entropy", drawn(2, 3, 4, 3), classes(2, 4, 3), F.cross_entropy),
        ("cross-entropy", drawn(2, 3, 4, 5), drawn(2, 3, 4, 5, seed=2).softmax(1), F.cross_entropy),
        ("bce", drawn(4, 3), classes(4, 3, count=2), lambda o, t: F.binary_cross_entropy_with_logits(o, t.float())),
        ("mse", drawn(6, 1), drawn(6, seed=2), lambda o, t: F.mse_loss(o[:, 0], t)),
        ("mae", drawn(6, 2), drawn(6, 2, seed=2), F.l1_loss),
        ("huber", drawn(6, 2), drawn(6, 2, seed=2), F.huber_loss),
    ],
)
def test_losses_are_torchs_own(
    name: str, outputs: Tensor, targets: Tensor, expected: Callable[[Tensor, Tensor], Tensor]
) -> None:
    total, count = LOSSES[name](outputs, targets)
    assert total.shape == count.shape == (len(outputs),), "one number per sample"
    torch.testing.assert_close(total.sum() / count.sum(), expected(outputs, targets))


def value(score: Score, outputs: Tensor, targets: Tensor) -> float:
    """The score of two unequal batches together."""
    sums = [score.sums(outputs[part], targets[part]) for part in (slice(0, 1), slice(1, None))]
    assert all(part.keys() == score.nothing().keys() for part in sums)
    return score.value({key: sum(part[key] for part in sums) for key in sums[0]})


def test_scores_of_classes_are_those_of_scikit_learn() -> None:
    outputs, targets = drawn(40, 4), classes(40, count=4)
    given = outputs.argmax(-1)
    for name, expected in {
        "accuracy": metrics.accuracy_score(targets, given),
        "exact-match": metrics.accuracy_score(targets, given),
        "f1": metrics.f1_score(targets, given, average="macro"),
        "f1-micro": metrics.f1_score(targets, given, average="micro"),
        "mean-iou": metrics.jaccard_score(targets, given, average="macro"),
    }.items():
        assert value(named(name, "cross-entropy", False, 4), outputs, targets) == pytest.approx(100 * expected), name
    assert value(named("loss", "cross-entropy", False, None), outputs, targets) == pytest.approx(
        F.cross_entropy(outputs, targets).item()
    )


def test_scores_of_labels_are_those_of_scikit_learn() -> None:
    outputs, targets = drawn(40, 4), classes(40, 4, count=2).float()
    given = outputs > 0
    for name, expected in {
        "accuracy": (given == targets).float().mean().item(),
        "exact-match": metrics.accuracy_score(targets, given),
        "f1": metrics.f1_score(targets, given, average="macro"),
        "f1-micro": metrics.f1_score(targets, given, average="micro"),
    }.items():
        assert value(named(name, "bce", True, 4), outputs, targets) == pytest.approx(100 * expected), name


def test_elements_without_a_label_do_not_count() -> None:
    outputs, targets = drawn(4, 5, 3), padded()
    kept = targets != measures.IGNORED
    right = (outputs.argmax(-1) == targets)[kept]
    assert value(named("token-accuracy", "cross-entropy", False, None), outputs, targets) == pytest.approx(
        100 * right.float().mean().item()
    )
    pixels, masks = drawn(2, 3, 4, 5), classes(2, 4, 5)
    masks[:, 0] = measures.IGNORED
    counted = masks != measures.IGNORED
    expected = metrics.jaccard_score(masks[counted], pixels.argmax(1)[counted], average="macro")
    assert value(named("mean-iou", "cross-entropy", False, 3), pixels, masks) == pytest.approx(100 * expected)


def test_a_class_that_neither_occurs_nor_is_predicted_does_not_count() -> None:
    score = named("f1", "cross-entropy", False, 9)
    assert isinstance(score, OverClasses)
    assert value(score, torch.eye(9)[:3], torch.arange(3)) == 100
    with pytest.raises(ValueError, match="f1 counts 2 classes from 0 on, and class 2 occurred"):
        named("f1", "cross-entropy", False, 2).sums(torch.eye(3), torch.arange(3))


def test_the_smallest_step_is_one_sample_or_one_element() -> None:
    assert named("accuracy", "", False, None).resolution(50, 1) == 2
    assert named("accuracy", "", False, None).resolution(50, 4) == 0.5
    assert named("exact-match", "", False, None).resolution(50, 4) == 2
    assert named("mse", "", False, None).resolution(50, 4) == 0


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"outputs \[8\] and targets \[8, 1\] must have the same shape"):
        matched(drawn(8), drawn(8, 1))
    with pytest.raises(ValueError, match=r"outputs \[8, 3\] do not fit targets \[8, 1\]: each target needs one output"):
        aligned(drawn(8, 3), classes(8, 1))


def test_scores_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="there is no metric 'auc': there are accuracy, "):
        named("auc", "", False, None)
    with pytest.raises(ValueError, match="metric='f1' counts classes: give classes, or num_classes in the options"):
        named("f1", "", False, None)
    with pytest.raises(ValueError, match='metric="loss" needs a loss by name'):
        named("loss", "", False, None)
