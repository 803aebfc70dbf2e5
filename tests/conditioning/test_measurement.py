"""`leanformer measure` and `leanformer theory`: what they record, what they warn of, and what they refuse."""

import json
import math
from pathlib import Path

import pytest
import torch
import transformers
from PIL import Image

import leanformer as lf
from leanformer.conditioning import gaussian as theory
from leanformer.conditioning import inputs, measurement
from leanformer.models import registry as families
from leanformer.records.files import number, plain, write_json
from leanformer.report.figures import comparison as curves
from leanformer.report.figures import measurement as figures
from leanformer.report.figures import style
from leanformer.report.numbers import significant as figure
from support.architectures import SMALL
from support.command import run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small saved ViT."""
    torch.manual_seed(0)
    lf.save_pretrained(families.build(SMALL["vit"]), tmp_path / "vit")
    return tmp_path / "vit"


def test_the_record_of_a_saved_model(folder: Path) -> None:
    record = measurement.measure_named(str(folder), batch=3)
    assert record["weights"] == "as saved"
    assert record["inputs"] == "3 images of Gaussian noise, 32 × 32, seed 0"
    assert len(record["layers"]) == 2
    model = lf.from_pretrained(folder)
    expected = lf.measure(model, inputs.random_images(model, 3, 0).batch)
    assert record["layers"][1]["kappa"]["median"] == expected.layers[1].values.kappa.median().item()
    assert record["layers"][0]["gaussian"] == pytest.approx(math.exp(theory.expected_log_kappa(17, 48)))
    assert {"command", "commit", "versions", "machine"} <= record.keys()


def test_a_checkpoint_is_measured(tmp_path: Path) -> None:
    torch.manual_seed(5)
    trained = lf.create("vit_tiny_patch16_224")
    lf.save_pretrained(trained, tmp_path)
    fresh = measurement.measure_named("vit_tiny_patch16_224", batch=1)
    loaded = measurement.measure_named("vit_tiny_patch16_224", checkpoint=tmp_path, batch=1)
    assert loaded["weights"] == str(tmp_path)
    assert loaded["layers"][0]["kappa"] != fresh["layers"][0]["kappa"]
    assert fresh["layers"] == measurement.measure_named("vit_tiny_patch16_224", batch=1)["layers"]


def test_images_go_through_the_models_own_transform(tmp_path: Path) -> None:
    for index in range(3):
        Image.effect_noise((300, 200), 50 + index).convert("RGB").save(tmp_path / f"{index}.png")
    model = lf.create("vit_tiny_patch16_224", depth=1)
    chosen = inputs.from_images(model, tmp_path, count=2)
    assert chosen.batch.shape == (2, 3, 224, 224)
    assert chosen.source == f"2 images of {tmp_path}"


def test_text_is_cut_into_equal_passages(tmp_path: Path) -> None:
    model = families.build(SMALL["gpt2"].with_options(vocab_size=300))
    (tmp_path / "a.txt").write_text("Once upon a time there was a matrix. " * 20, encoding="utf-8")
    chosen = measurement.choose_inputs(model, "gpt2", text=tmp_path / "a.txt", batch=3, tokens=16)
    assert chosen.batch["input_ids"].shape == (3, 16)
    assert bytes(chosen.batch["input_ids"][0].tolist()).decode() == "Once upon a time"


def test_a_folders_own_tokenizer_and_the_embedded_text(tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "a", "of", "is"]
    tokenizer = transformers.BertTokenizer(vocab={word: index for index, word in enumerate(words)})
    tokenizer.save_pretrained(tmp_path)
    families.build(SMALL["bert"]).save_pretrained(tmp_path)
    record = measurement.measure_named(str(tmp_path), batch=2, tokens=24)
    assert record["inputs"] == "2 passages of 24 tokens from Python's documentation"
    assert record["layers"][0]["tokens"] == 24


def test_warnings_name_the_cliff_and_the_heads_that_are_clear_of_it() -> None:
    record = measurement.measure_named("vit_tiny_patch16_224", batch=1)
    assert record["warnings"][0].startswith("192 columns beside 197 tokens are near the square")
    assert "5 heads of 64 and more are clear" in record["warnings"][0]
    assert theory.safe_heads(197, 64) == 5
    assert theory.cliff_factor(197, 4 * 64) > theory.CLIFF >= theory.cliff_factor(197, 5 * 64)


def test_heads_in_both_regimes() -> None:
    record = measurement.measure_heads("vit_tiny_patch16_224", [2, 3, 5, 8], depth=1, batch=1)
    assert [(row["regime"], row["heads"], row["head_dim"]) for row in record["rows"]] == [
        ("fixed", 2, 64),
        ("fixed", 3, 64),
        ("fixed", 5, 64),
        ("fixed", 8, 64),
        ("split", 2, 96),
        ("split", 3, 64),
        ("split", 8, 24),
    ]
    kappas = {row["heads"]: row["kappa"] for row in record["rows"] if row["regime"] == "fixed"}
    assert max(kappas, key=kappas.__getitem__) == 3  # the cliff: 192 columns, 197 tokens


def test_theory_record_and_every_figure(tmp_path: Path, folder: Path) -> None:
    record = measurement.theory_record(17, 8, [1, 2, 4], samples=50, seed=0, progress=lambda step: None)
    assert [row["columns"] for row in record["rows"]] == [8, 16, 32]
    assert all(row["smallest_sigma"] > 0 for row in record["rows"])
    kappa = {"mean_over_layers": 3.0, "median_over_layers": 2.0}
    drawn = {
        "theory": figures.theory_against_simulation(plain(record)),
        "layers": figures.kappa_by_layer(plain(measurement.measure_named(str(folder), batch=2))),
        "heads": figures.kappa_by_heads(measurement.measure_heads("vit_tiny_patch16_224", [2, 3], depth=1, batch=1)),
        "training": curves.kappa_over_training({"lean": [[{"step": 0, "kappa": kappa}, {"step": 5, "kappa": kappa}]]}),
    }
    for name, made in drawn.items():
        png, svg = style.save(made, tmp_path / name)
        assert png.stat().st_size > 10_000
        assert b"</svg>" in svg.read_bytes()
        assert made.axes[0].get_yscale() == "log"
        assert made.axes[0].get_xlabel()


def test_records_hold_infinity(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"kappa": [math.inf, 2.0], "n": 3})
    kept = json.loads((tmp_path / "a.json").read_text())
    assert kept == {"kappa": ["inf", 2.0], "n": 3}
    assert [number(value) for value in kept["kappa"]] == [math.inf, 2.0]


@pytest.mark.parametrize(
    ("value", "words"),
    [(1.0, "1"), (3.456, "3.46"), (123.4, "123"), (54_321, "54,321"), (7.2e6, "7.2·10⁶"), ("inf", "∞")],
)
def test_numbers_as_a_person_writes_them(value: float | str, words: str) -> None:
    assert figure(value) == words


def test_measure_from_the_command_line(folder: Path, tmp_path: Path) -> None:
    shown = run("measure", str(folder), "--batch", "2", "--json", "--out", str(tmp_path / "out"))
    assert shown.returncode == 0, shown.stderr
    record = json.loads(shown.stdout)
    assert record["layers"][0]["matrices"] == 2
    assert json.loads((tmp_path / "out" / "kappa_by_layer.json").read_text()) == record
    assert (tmp_path / "out" / "kappa_by_layer.png").is_file()
    table = run("measure", str(folder), "--batch", "2", "--out", str(tmp_path / "out")).stdout
    assert "blocks.1.attn" in table
    assert "Gaussian" in table


def test_theory_from_the_command_line(tmp_path: Path) -> None:
    arguments = ["--tokens", "17", "--head-dim", "8", "--heads", "1-3", "--samples", "50", "--model", "none"]
    shown = run("theory", *arguments, "--out", str(tmp_path))
    assert shown.returncode == 0, shown.stderr
    assert "Theorem 3.2" in shown.stdout
    assert (tmp_path / "theory.svg").is_file()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: dict(images=path / "none"), "is no folder"),
        (lambda path: dict(images=path), "holds no image"),
        (lambda path: dict(text=path / "a.txt"), "takes images: give --images DIR or --random"),
        (lambda path: dict(tokens=3), "takes images"),
        (lambda path: dict(images=path, random=True), "exclude each other"),
        (lambda path: dict(batch=0), "--batch must be at least 1, got 0"),
    ],
)
def test_wrong_inputs_for_images(make, message: str, tmp_path: Path) -> None:
    model = families.build(SMALL["vit"])
    with pytest.raises(ValueError, match=message):
        measurement.choose_inputs(model, "vit", **make(tmp_path))


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"\xff\xfe", {}, "is not UTF-8: byte 0 is 0xff"),
        (b"  \n", {}, "is empty"),
        (b"too short", {"tokens": 32}, "gives 9 tokens, fewer than one passage of 32"),
        (b"long enough", {"tokens": 2000}, "--tokens 2000 is more than gpt2 takes: 64"),
        (b"long enough", {"tokens": -5}, "--tokens must be at least 1, got -5"),
    ],
)
def test_wrong_inputs_for_text(content: bytes, options: dict, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    model = families.build(SMALL["gpt2"].with_options(vocab_size=300))
    with pytest.raises(ValueError, match=message):
        measurement.choose_inputs(model, "gpt2", text=tmp_path / "a.txt", **options)


def test_an_unreadable_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "b.png").write_text("no image")
    with pytest.raises(ValueError, match=r"b\.png is no readable image"):
        inputs.from_images(families.build(SMALL["vit"]), tmp_path, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["measure", "vit_bse_patch16_224"], "did you mean vit_base_patch16_224"),
        (
            ["measure", "gpt2", "--heads", "0,2"],
            '--heads takes whole numbers from 1 on, such as "2,4,8" or "2-18", got "0,2"',
        ),
        (["measure", "gpt2", "--depth", "2"], "--depth goes with --heads"),
        (["measure", "nystromformer-retrieval"], "takes pairs of documents"),
        (["measure", "davit_tiny", "--heads", "2"], "--heads takes models of one stage; davit_tiny has 4"),
        (["theory", "--tokens", "0", "--model", "none"], "tokens must be at least 1, got 0"),
    ],
)
def test_mistakes_on_the_command_line(arguments: list[str], message: str) -> None:
    shown = run(*arguments)
    assert shown.returncode == 2
    assert message in " ".join(shown.stderr.split())
