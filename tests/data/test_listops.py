"""ListOps: the grammar, a second evaluator, the published prior, and data that no worker, split or cache changes."""

import itertools
import statistics
from pathlib import Path

import numpy as np
import pytest

from leanformer.data import listops as listops_data
from leanformer.data.listops import WORDS, ListOpsSettings, generate, splits, text
from leanformer.data.parallel import in_order
from leanformer.data.sequences import RaggedSequences, joined

SHORT = ListOpsSettings(min_length=10, max_length=200)
TINY = ListOpsSettings(min_length=3, max_length=9, max_depth=3, max_arguments=4)

Tree = int | tuple[str, list["Tree"]]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def published() -> RaggedSequences:
    return generate(ListOpsSettings(), 4000, seed=11)


def parse(expression: str) -> Tree:
    """The tree of a whole expression, by recursion, token by token."""
    words = expression.split()

    def node(place: int) -> tuple[Tree, int]:
        if words[place].isdigit():
            return int(words[place]), place + 1
        name, place = words[place], place + 1
        assert name in ("[MIN", "[MAX", "[MED", "[SM"), name
        arguments = []
        while words[place] != "]":
            argument, place = node(place)
            arguments.append(argument)
        return (name, arguments), place + 1

    tree, end = node(0)
    assert end == len(words)
    return tree


def value(tree: Tree) -> int:
    if isinstance(tree, int):
        return tree
    name, arguments = tree
    values = [value(argument) for argument in arguments]
    functions = {"[MIN": min, "[MAX": max, "[MED": lambda v: int(statistics.median(v)), "[SM": lambda v: sum(v) % 10}
    return functions[name](values)


def depth(tree: Tree) -> int:
    return 1 if isinstance(tree, int) else 1 + max(map(depth, tree[1]))


def argument_counts(tree: Tree) -> list[int]:
    return [] if isinstance(tree, int) else [len(tree[1]), *itertools.chain(*map(argument_counts, tree[1]))]


def trees(data: RaggedSequences) -> list[Tree]:
    return [parse(text(data.tokens(row))) for row in range(len(data))]


def same(one: RaggedSequences, other: RaggedSequences) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("flat", "offsets", "labels"))


def test_the_second_evaluator() -> None:
    assert value(parse("[MAX 2 9 [MIN 4 7 ] 0 ]")) == 9
    assert value(parse("[SM 9 8 [MED 1 2 9 4 ] ]")) == 0
    for numbers in itertools.product(range(10), repeat=3):
        for some in (numbers, numbers[:2]):
            assert value(("[MED", list(some))) == int(np.median(some))  # as the published generator has it


# Expressions


def test_values_agree_with_a_recursive_evaluation() -> None:
    data = generate(SHORT, 10_000, seed=3)
    assert [value(tree) for tree in trees(data)] == data.labels.tolist()


def test_published_expressions(published: RaggedSequences) -> None:
    part = published.rows(0, 300)
    found = trees(part)
    assert [value(tree) for tree in found] == part.labels.tolist()
    assert max(map(depth, found)) == 10
    counts = np.bincount(list(itertools.chain(*map(argument_counts, found))), minlength=11)
    assert len(counts) == 11
    assert not counts[:2].any()
    assert abs(counts[2:] / counts.sum() - 1 / 9).max() < 0.02


def test_lengths_and_tokens(published: RaggedSequences) -> None:
    assert published.flat.dtype == np.uint8
    assert published.labels.dtype == np.int64
    assert published.lengths.min() > 500
    assert published.lengths.max() < 2000
    assert published.lengths.min() < 520
    assert published.lengths.max() > 1900
    assert published.offsets[-1] == len(published.flat)
    counts = np.bincount(published.flat, minlength=len(WORDS))
    assert counts[0] == 0
    assert (counts[1:] > 0).all()
    assert len(counts) == 16
    assert abs(counts[1:11] / counts[1:11].sum() - 0.1).max() < 0.005
    assert abs(counts[11:15] / counts[11:15].sum() - 0.25).max() < 0.005
    assert counts[11:15].sum() == counts[15]


def test_the_published_prior(published: RaggedSequences) -> None:
    shares = np.bincount(published.labels, minlength=10) / len(published)
    assert shares.max() == pytest.approx(0.17, abs=0.02)
    assert shares.min() > 0.05
    assert set(np.argsort(shares)[-2:]) == {0, 9}  # what MIN and MAX of many arguments come to


def test_the_share_of_operators_where_no_length_is_left_out() -> None:
    """With every length wanted, arguments above the last level are operators as often as asked for."""
    data = generate(ListOpsSettings(min_length=3, max_length=100_000, max_depth=4, probability=0.4), 2000, seed=0)
    above = [argument for tree in trees(data) for argument in _arguments_above(tree, 3)]
    assert np.mean([isinstance(argument, tuple) for argument in above]) == pytest.approx(0.4, abs=0.01)


def _arguments_above(tree: Tree, levels: int) -> list[Tree]:
    if isinstance(tree, int) or levels == 1:
        return []
    return [*tree[1], *itertools.chain(*(_arguments_above(argument, levels - 1) for argument in tree[1]))]


@pytest.mark.parametrize(
    "settings", [TINY, ListOpsSettings(min_length=20, max_length=60, max_depth=5, max_arguments=3)]
)
def test_every_setting_is_kept(settings: ListOpsSettings) -> None:
    data = generate(settings, 500, seed=1)
    assert settings.min_length < data.lengths.min()
    assert data.lengths.max() < settings.max_length
    found = trees(data)
    assert max(map(depth, found)) <= settings.max_depth
    counts = list(itertools.chain(*map(argument_counts, found)))
    assert min(counts) == 2
    assert max(counts) == settings.max_arguments
    assert all(isinstance(tree, tuple) for tree in found)


def test_growing_on_does_not_change_what_is_kept() -> None:
    """Trees that are too long stop growing early: the shorter ones are those that a higher limit lets through too."""
    low, high = (generate(ListOpsSettings(min_length=50, max_length=limit), 4000, seed=5) for limit in (100, 10_000))
    share = (low.lengths < 75).mean(), (high.lengths[high.lengths < 100] < 75).mean()
    assert share[0] == pytest.approx(share[1], abs=0.05)


# Seeds, workers, splits


def test_seeds() -> None:
    assert same(generate(SHORT, 700, seed=1), generate(SHORT, 700, seed=1))
    assert not same(generate(SHORT, 700, seed=1), generate(SHORT, 700, seed=2))
    assert same(generate(SHORT, 700, seed=1), generate(SHORT, 3000, seed=1).rows(0, 700))
    assert len(generate(SHORT, 0, seed=1)) == 0


def test_workers_change_nothing() -> None:
    assert same(generate(SHORT, 5000, seed=4, workers=1), generate(SHORT, 5000, seed=4, workers=2))
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        generate(SHORT, 1, seed=0, workers=0)


def test_results_come_in_order_from_endless_items() -> None:
    drawn = in_order(abs, itertools.count(-5), workers=2)
    assert list(itertools.islice(drawn, 8)) == [5, 4, 3, 2, 1, 0, 1, 2]
    drawn.close()
    assert list(in_order(abs, [-3, 2], workers=2)) == [3, 2]


def test_no_expression_is_in_two_places() -> None:
    assert len({text(tokens) for tokens in _all(generate(TINY, 3000, seed=0))}) < 2500
    parts = splits(TINY, train=2000, validation=300, test=200, seed=0)
    assert [len(part) for part in parts] == [2000, 300, 200]
    assert len({text(tokens) for part in parts for tokens in _all(part)}) == 2500


def _all(data: RaggedSequences) -> list[np.ndarray]:
    return [data.tokens(row) for row in range(len(data))]


def test_more_training_leaves_the_held_out_expressions_alone() -> None:
    few, many = (splits(TINY, train=train, validation=30, test=20, seed=0) for train in (100, 400))
    assert same(few[1], many[1])
    assert same(few[2], many[2])
    assert same(few[0], many[0].rows(0, 100))


# The cache


def test_the_cache_gives_what_was_drawn(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = splits(SHORT, 300, 20, 10, seed=7)
    assert len(list(cache.iterdir())) == 1
    monkeypatch.setattr(listops_data, "_taken", None)  # nothing is drawn again
    assert all(same(one, other) for one, other in zip(fresh, splits(SHORT, 300, 20, 10, seed=7), strict=True))


def test_other_settings_have_another_file(cache: Path) -> None:
    splits(SHORT, 30, 2, 1, seed=7)
    splits(SHORT, 30, 2, 1, seed=8)
    splits(SHORT, 30, 1, 2, seed=7)
    splits(TINY, 30, 2, 1, seed=7)
    assert len(list(cache.iterdir())) == 4


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_a_damaged_file_is_made_again(damage: str, cache: Path) -> None:
    fresh = splits(SHORT, 300, 20, 10, seed=7)
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    if damage == "other":  # a whole file of other settings under this name
        splits(SHORT, 300, 20, 10, seed=8)
        (other,) = set(cache.iterdir()) - {path}
        path.write_bytes(other.read_bytes())
    else:
        middle = len(whole) // 2
        flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        path.write_bytes({"cut": whole[:middle], "flipped": flipped, "empty": b""}[damage])
    again = splits(SHORT, 300, 20, 10, seed=7)
    assert all(same(one, other) for one, other in zip(fresh, again, strict=True))
    assert path.read_bytes() == whole
    assert not list(cache.glob("*.partial"))


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "file"))
    with pytest.raises(ValueError, match=r"cannot write .*; set LEANFORMER_CACHE to a folder"):
        splits(SHORT, 3, 2, 1, seed=7)


# RaggedSequences


def test_padding(published: RaggedSequences) -> None:
    ids, lengths = published.padded([5, 0, 5], 2000)
    assert ids.shape == (3, 2000)
    assert ids.dtype == np.int64
    assert lengths.tolist() == published.lengths[[5, 0, 5]].tolist()
    for row, wanted in enumerate((5, 0, 5)):
        assert np.array_equal(ids[row, : lengths[row]], published.tokens(wanted))
        assert not ids[row, lengths[row] :].any()
    assert published.padded([], 2000)[0].shape == (0, 2000)
    with pytest.raises(ValueError, match=r"a sequence has .* tokens, and length is only 100"):
        published.padded([0], 100)


def test_joining_and_choosing() -> None:
    data = generate(TINY, 60, seed=0)
    assert same(joined([data.rows(0, 25), data.rows(25, 25), data.rows(25, 60)]), data)
    chosen = data.chosen(np.array([3, 50, 3]))
    assert [text(tokens) for tokens in _all(chosen)] == [text(data.tokens(row)) for row in (3, 50, 3)]


# Settings that cannot be


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(probability=1.5), "probability must be from 0 to 1, got 1.5"),
        (dict(max_depth=1), "max_depth must be at least 2, got 1"),
        (dict(max_arguments=1), "max_arguments must be at least 2, got 1"),
        (dict(min_length=50, max_length=51), "no expression has more than 50 and fewer than 51 tokens"),
        (dict(min_length=0, max_length=4), "the shortest, such as .* has 4"),
        (dict(max_depth=3, max_arguments=4), "with max_depth 3 and max_arguments 4 the longest has 26"),
    ],
)
def test_settings_without_expressions(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ListOpsSettings(**settings)


def test_too_few_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listops_data, "PATIENCE", 20)
    smallest = ListOpsSettings(min_length=3, max_length=5)  # 4 operators on 2 digits: there are 400
    assert len(splits(smallest, 400, 0, 0, seed=0)[0]) == 400
    with pytest.raises(ValueError, match=r"20,480 trees in a row gave no new expression .*; 1 of 401 are missing"):
        splits(smallest, 401, 0, 0, seed=0)
    with pytest.raises(ValueError, match="20,480 trees in a row gave no expression of more than 500"):
        generate(ListOpsSettings(probability=0.01), 1, seed=0)
    with pytest.raises(ValueError, match=r"a split cannot have fewer than 0 expressions, got .*'test': -1"):
        splits(SHORT, 1, 1, -1)
