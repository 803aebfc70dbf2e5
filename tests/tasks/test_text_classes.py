"""Classes of texts: what a model sees of them, whatever file they come from."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leanformer import tasks
from leanformer.data.order import Order, Share
from support.texts import reviews, write_table


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("LEANFORMER_DATA", raising=False)


def files(folder: Path) -> list[Path]:
    rows = reviews()
    texts, labels = [text for text, _ in rows], [label for _, label in rows]
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": a, "label": b}) + "\n" for a, b in rows))
    pq.write_table(pa.table({"text": texts, "label": labels}), folder / "a.parquet")
    for number, (text, label) in enumerate(rows):
        (folder / "folders" / label).mkdir(parents=True, exist_ok=True)
        (folder / "folders" / label / f"{number}.txt").write_text(text)
    tables = [write_table(folder / f"a.{kind}", ("text", "label"), rows) for kind in ("csv", "tsv")]
    return [*tables, folder / "a.jsonl", folder / "a.parquet", folder / "folders"]


def test_every_kind_of_file_gives_the_same_samples(tmp_path: Path) -> None:
    found = [tasks.TextClasses().with_data(file).load() for file in files(tmp_path)]
    wanted = {(text, label) for text, label in reviews()}
    for data in found:
        parts = (data.found.train, data.found.held_out)
        assert data.found.names == ("negative", "positive")
        read = [
            (text, data.found.names[row]) for part in parts for text, row in zip(part.texts, part.labels, strict=True)
        ]
        assert set(read) == wanted
        assert {*data.found.train.texts}.isdisjoint(data.found.held_out.texts)
        assert np.bincount(data.held_out.labels).tolist() == [12, 12], "a tenth of each class"
    assert {data.identity for data in found[:4]} == {found[0].identity}, "rows of tables keep their order"


def test_a_model_sees_the_tokens_of_the_tokenizer(tmp_path: Path) -> None:
    file = write_table(tmp_path / "a.csv", ("text", "label"), reviews())
    data = tasks.TextClasses(dataset=str(file), length=8).load()
    rows = np.array([3, 7, 11])
    order = Order(0, 4, data.size)
    ids, mask, labels = next(data.batches(order, range(1), Share()))
    for sample, row in enumerate(order.indices(0)):
        encoded = data.tokenizer.encode(data.found.train.texts[row], add_special_tokens=False).ids
        first, last = (data.tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]"))
        wanted = [first, *encoded[:6], last]
        assert ids[sample, : len(wanted)].tolist() == wanted
        assert mask[sample].sum() == len(wanted)
        assert labels[sample] == data.found.train.labels[row]
    assert data.cut > 0
    assert "cut to 8 tokens" in data.contents().notes[-1]
    assert data.train.chosen(rows).ids == [data.train.ids[row] for row in rows]


def test_columns_and_shares_are_those_that_were_named(tmp_path: Path) -> None:
    rows = [(text, f"other {number}", label, number % 3) for number, (text, label) in enumerate(reviews())]
    file = write_table(tmp_path / "a.csv", ("review", "text", "label", "stars"), rows)
    usual = tasks.TextClasses(dataset=str(file)).load()
    assert usual.found.train.texts[0].startswith("other")
    assert usual.found.names == ("negative", "positive")
    named = tasks.TextClasses(dataset=str(file), text_column="review", label_column="stars", held_out=0.5).load()
    assert {*named.found.train.texts} <= {row[0] for row in rows}
    assert named.found.names == ("0", "1", "2")
    assert 0.4 < len(named.held_out) / len(rows) < 0.6
    assert "the texts are in the column review, the labels are in the column stars" in named.contents().notes


def test_the_baseline_is_the_share_of_the_most_frequent_class(tmp_path: Path) -> None:
    rows = [(text, label) for number, (text, label) in enumerate(reviews()) if label == "positive" or number % 8 == 0]
    data = tasks.TextClasses(dataset=str(write_table(tmp_path / "a.csv", ("text", "label"), rows))).load()
    assert data.baselines == {"the most frequent class": 100 * (data.held_out.labels == 1).mean()}
    assert data.baselines["the most frequent class"] > 70


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        (
            ("text", "label"),
            lambda n, text, label: (text, "x"),
            "all 60 texts have the label 'x'; needed are at least 2",
        ),
        (
            ("text", "label"),
            lambda n, text, label: (n, label),
            "the column text holds numbers, such as '0'; needed are",
        ),
        (("text", "label"), lambda n, text, label: (text, label if n else ""), "line 2: the label is missing: repair"),
        (
            ("text", "label"),
            lambda n, text, label: (text, f"{n}.5"),
            "60 different labels, such as '0.5'; needed are classes",
        ),
        (
            ("id", "one", "two"),
            lambda n, text, label: (n, text, label),
            r"which column holds the text\?",
        ),
    ],
)
def test_bad_tables_are_refused_in_a_line(header: tuple[str, ...], row: object, message: str, tmp_path: Path) -> None:
    rows = [row(number, text, label) for number, (text, label) in enumerate(reviews(60))]  # type: ignore[operator]
    file = write_table(tmp_path / "a.csv", header, rows)
    with pytest.raises(ValueError, match=message) as raised:
        tasks.TextClasses(dataset=str(file)).load()
    assert str(file) in str(raised.value)
    assert "\n" not in str(raised.value)
