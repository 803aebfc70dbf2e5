"""A model measured by name: what is recorded, and what it warns about."""

import math
from pathlib import Path

import pytest
import torch
import transformers

import leanformer as lf
from leanformer.conditioning import gaussian, inputs
from leanformer.conditioning.measurement import Measurement, measure_named, measure_ranks, warnings
from leanformer.models import families
from leanformer.report.figures import measurement as figures
from leanformer.report.figures import style
from support.architectures import SMALL


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small saved ViT."""
    torch.manual_seed(0)
    lf.save_pretrained(families.build(SMALL["vit"]), tmp_path / "vit")
    return tmp_path / "vit"


def test_the_record_of_a_saved_model(folder: Path, tmp_path: Path) -> None:
    record = measure_named(str(folder), batch=3)
    assert record.weights == "as saved"
    assert record.inputs == "3 images of Gaussian noise, 32 × 32, seed 0"
    assert len(record.layers) == 2
    model = lf.from_pretrained(folder)
    expected = lf.measure(model, inputs.random_images(model, 3, 0).batch)
    assert record.layers[1].kappa.median == expected.layers[1].values.kappa.median().item()
    assert record.layers[0].gaussian == pytest.approx(math.exp(gaussian.expected_log_kappa(17, 48)))
    record.write(tmp_path / "a.json")
    assert Measurement.read(tmp_path / "a.json") == record
    written = record.to_dict()
    assert {"command", "commit", "versions", "machine", "warnings"} <= written.keys()
    assert (written["kind"], written["version"]) == ("measurement", 2)


def test_infinity_is_kept(tmp_path: Path, folder: Path) -> None:
    record = measure_named(str(folder), batch=2)
    layer = record.layers[0]
    infinite = layer.model_copy(update={"kappa": layer.kappa.model_copy(update={"max": math.inf}), "rank_deficient": 1})
    changed = record.model_copy(update={"layers": (infinite, record.layers[1])})
    changed.write(tmp_path / "a.json")
    assert changed.to_dict()["layers"][0]["kappa"]["max"] == "inf"
    assert Measurement.read(tmp_path / "a.json") == changed
    assert "1 block without full rank: κ is infinite there" in changed.warnings
    kappa = Measurement.schema_of_file()["$defs"]["KappaSummary"]["properties"]["max"]
    assert {"const": "inf"} in kappa["anyOf"]


def test_a_checkpoint_is_measured(tmp_path: Path) -> None:
    torch.manual_seed(5)
    trained = lf.create("vit_tiny_patch16_224")
    lf.save_pretrained(trained, tmp_path)
    fresh = measure_named("vit_tiny_patch16_224", batch=1)
    loaded = measure_named("vit_tiny_patch16_224", checkpoint=tmp_path, batch=1)
    assert loaded.weights == str(tmp_path)
    assert loaded.layers[0].kappa != fresh.layers[0].kappa
    assert fresh.layers == measure_named("vit_tiny_patch16_224", batch=1).layers


def test_random_generators_are_left_as_they_were(folder: Path) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    measure_named(str(folder), batch=2)
    measure_ranks("vit_tiny_patch16_224", seed=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_folders_own_tokenizer_and_the_embedded_text(tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "a", "of", "is"]
    tokenizer = transformers.BertTokenizer(vocab={word: index for index, word in enumerate(words)})
    tokenizer.save_pretrained(tmp_path)
    families.build(SMALL["bert"]).save_pretrained(tmp_path)
    record = measure_named(str(tmp_path), batch=2, tokens=24)
    assert record.inputs == "2 passages of 24 tokens from Python's documentation"
    assert record.layers[0].tokens == 24


def test_warnings_name_the_cliff_and_the_heads_that_are_clear_of_it() -> None:
    record = measure_named("vit_tiny_patch16_224", batch=1)
    assert record.warnings == warnings(record.layers)
    assert record.warnings[0].startswith("192 columns and 197 tokens are near the square")
    assert "5 or more heads of 64 are clear" in record.warnings[0]


def test_the_figures(folder: Path, tmp_path: Path) -> None:
    drawn = {
        "layers": figures.kappa_by_layer(measure_named(str(folder), batch=2)),
        "ranks": figures.rank_by_layer(measure_ranks(str(folder))),
    }
    for name, made in drawn.items():
        png, svg = style.save(made, tmp_path / name)
        assert png.stat().st_size > 10_000
        assert b"</svg>" in svg.read_bytes()
        assert made.axes[0].get_xlabel() == "layer"
    assert drawn["layers"].axes[0].get_yscale() == "log"
