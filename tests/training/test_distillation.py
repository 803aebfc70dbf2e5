"""Learning from a teacher: the loss that is taken, on every kind of task, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from accelerate import Accelerator

import leanformer as lf
from leanformer.tasks import NextToken, SentenceClasses
from leanformer.tasks.base import load
from leanformer.training.distillation import Teacher, layer_map
from leanformer.training.loop import train
from leanformer.training.optimizer import build_optimizer
from leanformer.training.settings import Training
from leanformer.training.step import Stepper
from support import tiny_run
from support.architectures import SMALL
from support.glue import write_glue
from support.trained import shaken

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("teacher")
    lf.save_pretrained(shaken(tiny_run.architecture()), folder)
    return folder


def batch() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    return torch.randn(4, 1, 8, 8), torch.arange(4)


def settings(teacher: Path, **more: float) -> Training:
    return tiny_run.training(teacher=str(teacher), **more)


def test_the_loss_is_the_tasks_and_the_divergence_from_the_teacher(teacher: Path) -> None:
    student = shaken(tiny_run.architecture(), seed=3)
    images, _ = batch()
    ours, theirs = student(images), lf.from_pretrained(teacher)(images)
    own = tiny_run.digits().loss(student, batch())
    soft = (theirs / 3).softmax(-1)
    divergence = (soft * (soft.log() - (ours / 3).log_softmax(-1))).sum(-1).mean() * 9
    for share in (0.0, 0.3, 1.0):
        asked = settings(teacher, teacher_share=share, teacher_temperature=3.0)
        found = Teacher(asked, student, CPU).loss(tiny_run.digits(), student, batch())
        assert found.item() == pytest.approx(((1 - share) * own + share * divergence).item(), rel=1e-5)


def test_a_student_that_is_its_teacher_learns_nothing_from_it(teacher: Path) -> None:
    student = lf.from_pretrained(teacher)
    found = Teacher(settings(teacher, teacher_share=1.0, teacher_hidden=1.0), student, CPU)
    loss = found.loss(tiny_run.digits(), student, batch())
    loss.backward()
    assert loss.item() == pytest.approx(0.0, abs=1e-6)
    assert all(p.grad is None or p.grad.abs().max() < 1e-6 for p in student.parameters())
    assert all(p.grad is None for p in found.model.parameters())


def test_hidden_states_are_compared_layer_by_layer(teacher: Path) -> None:
    trained = lf.from_pretrained(teacher)
    lean = lf.inherit(trained, depth=1, layers=[1], inputs=batch()[0])
    asked = settings(teacher, teacher_share=1.0, teacher_hidden=0.7)
    found = Teacher(asked, lean, CPU)
    answers = Teacher(replace(asked, teacher_hidden=0.0), lean, CPU)
    added = found.loss(tiny_run.digits(), lean, batch()) - answers.loss(tiny_run.digits(), lean, batch())
    states: list[torch.Tensor] = []
    for model, layer in ((lean, "blocks.0"), (trained, "blocks.1")):
        handle = model.get_submodule(layer).register_forward_hook(lambda _, __, output: states.append(output))
        model(batch()[0])
        handle.remove()
    ours, theirs = states
    assert added.item() == pytest.approx((0.7 * (ours - theirs).square().mean() / theirs.square().mean()).item(), 1e-4)


def test_layers_are_paired(tmp_path: Path) -> None:
    assert layer_map(None, 3, 6) == [1, 3, 5]
    assert layer_map(None, 6, 6) == list(range(6))
    assert layer_map(None, 6, 4) == [0, 1, 1, 2, 3, 3]
    (tmp_path / "inheritance.json").write_text(json.dumps({"layers": [0, 3, 5], "scores": [{}] * 6}))
    assert layer_map(tmp_path, 3, 6) == [0, 3, 5]
    assert layer_map(tmp_path, 3, 12) == [3, 7, 11], "inherited from another model than the teacher"


def test_training_with_a_teacher_is_resumed_to_the_same_bits(teacher: Path, tmp_path: Path) -> None:
    asked = dict(steps=6, evaluations=2, save_every=2, teacher=str(teacher), teacher_hidden=0.5)
    whole = train(tiny_run.described(tmp_path / "whole", **asked), tiny_run.digits())
    folder = tiny_run.described(tmp_path / "stopped", **asked)

    class StopError(Exception): ...

    def stop(step: int, loss: float) -> None:
        if step >= 4:
            raise StopError

    with pytest.raises(StopError):
        train(folder, tiny_run.digits(), progress=stop)
    again = train(folder, tiny_run.digits())
    assert again.losses == whole.losses
    assert again.model_sums == whole.model_sums
    alone = train(tiny_run.described(tmp_path / "alone", **{**asked, "teacher": ""}), tiny_run.digits())
    assert alone.losses != whole.losses


def test_language_models_and_regressions_have_teachers_too(tmp_path: Path) -> None:
    words = load(NextToken(dataset="pydoc", tokenizer="bpe:300", length=16))
    design = SMALL["gpt2"].with_options(**words.options)
    write_glue(tmp_path, "stsb", rows=40)
    pairs = SentenceClasses(name="stsb", root=str(tmp_path), tokenizer="wordpiece:300").load()
    scorer = SMALL["bert"].with_options(**pairs.options)
    for data, chosen in ((words, design), (pairs, scorer)):
        lf.save_pretrained(shaken(chosen), tmp_path / chosen.name)
        student = shaken(chosen, seed=1)
        asked = Training(steps=4, batch=4, lr=1e-3, teacher=str(tmp_path / chosen.name), teacher_share=1.0)
        stepper = Stepper(data, asked, Accelerator(cpu=True), student, build_optimizer(student, asked))
        from leanformer.data.order import Order, Share

        batches = list(data.batches(Order(0, 4, data.size), range(1), Share()))
        losses = [stepper.take(batches[0], step, 1).item() for step in range(4)]
        assert losses[-1] < losses[0]


def test_a_teacher_that_answers_otherwise_is_refused(teacher: Path, tmp_path: Path) -> None:
    student = shaken(tiny_run.architecture().with_options(num_classes=7))
    found = Teacher(settings(teacher), student, CPU)
    with pytest.raises(
        ValueError, match=r"does not answer as the student does: logits of \(4, 10\), needed are \(4, 7\)"
    ):
        found.loss(tiny_run.digits(), student, batch())
    with pytest.raises(ValueError, match="is not a saved model"):
        Teacher(settings(tmp_path), student, CPU)
    wide = shaken(tiny_run.architecture().resized(width=32))
    asked = settings(teacher, teacher_hidden=1.0)
    with pytest.raises(ValueError, match=r"hidden states have other shapes in the teacher .* set teacher_hidden=0"):
        Teacher(asked, wide, CPU).loss(tiny_run.digits(), wide, batch())
    for wrong in ({"teacher_share": 1.5}, {"teacher_temperature": 0}, {"teacher_hidden": -1}, {"teacher": 3}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            tiny_run.training(**wrong)


def test_a_task_that_does_not_call_its_model_is_refused(teacher: Path) -> None:
    class Inside:
        def loss(self, model: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> torch.Tensor:
            return model.forward(given[0]).sum()

    student = shaken(tiny_run.architecture())
    with pytest.raises(ValueError, match=r"the task never calls its model as model\(...\)"):
        Teacher(settings(teacher), student, CPU).loss(Inside(), student, batch())  # type: ignore[arg-type]


def test_padding_is_not_learned_from_the_teacher(tmp_path: Path) -> None:
    design = SMALL["bert"]
    lf.save_pretrained(shaken(design), tmp_path)
    student = shaken(design, seed=1)
    ids, mask = torch.arange(12)[None] % 7 + 1, torch.tensor([[1] * 8 + [0] * 4])

    class Masked:
        def loss(self, model: torch.nn.Module, _: object) -> torch.Tensor:
            return model(input_ids=ids, attention_mask=mask).logits.sum() * 0

    asked = Training(steps=1, teacher=str(tmp_path), teacher_share=1.0, teacher_temperature=1.0)
    found = Teacher(asked, student, CPU).loss(Masked(), student, ())  # type: ignore[arg-type]
    with torch.no_grad():
        ours, theirs = (m(input_ids=ids, attention_mask=mask).logits[0, :8].log_softmax(-1)
                        for m in (student, lf.from_pretrained(tmp_path)))  # fmt: skip
    assert found.item() == pytest.approx(
        F.kl_div(ours, theirs, log_target=True, reduction="batchmean").item(), rel=1e-5
    )
