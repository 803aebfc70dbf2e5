"""A model measured by name: what is recorded, and what it warns about."""

import math
import string
from pathlib import Path

import pytest
import torch
import transformers
from torch.utils._pytree import tree_map

import leanformer as lf
from leanformer.conditioning import gaussian, inputs
from leanformer.conditioning.measurement import Measurement, warnings
from leanformer.conditioning.probing import FORWARD_ROUNDING
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
    record = lf.measure(str(folder), batch=3)
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
    record = lf.measure(str(folder), batch=2)
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
    fresh = lf.measure("vit_tiny_patch16_224", batch=1)
    loaded = lf.measure("vit_tiny_patch16_224", checkpoint=tmp_path, batch=1)
    assert loaded.weights == str(tmp_path)
    assert loaded.layers[0].kappa != fresh.layers[0].kappa
    assert fresh.layers == lf.measure("vit_tiny_patch16_224", batch=1).layers


def test_random_generators_are_left_as_they_were(folder: Path) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    lf.measure(str(folder), batch=2)
    lf.measure("vit_tiny_patch16_224", rank=True, seed=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_folders_own_tokenizer_and_the_embedded_text(tmp_path: Path) -> None:
    letters = string.ascii_lowercase
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "of", "is", *letters, *(f"##{letter}" for letter in letters)]
    tokenizer = transformers.BertTokenizer(vocab={word: index for index, word in enumerate(words)})
    tokenizer.save_pretrained(tmp_path)
    families.build(SMALL["bert"]).save_pretrained(tmp_path)
    record = lf.measure(str(tmp_path), batch=2, tokens=24)
    assert record.inputs == "2 passages of 24 tokens from Python's documentation"
    assert record.layers[0].tokens == 24


def test_warnings_name_the_cliff_and_the_heads_that_are_clear_of_it() -> None:
    record = lf.measure("vit_tiny_patch16_224", batch=1)
    assert record.warnings == warnings(record.layers)
    assert record.warnings[0].startswith("192 columns and 197 tokens are near the square")
    assert "5 or more heads of 64 are clear" in record.warnings[0]


def test_a_dependent_value_column_is_flagged_and_float64_shows_it(tmp_path: Path) -> None:
    """In float32 the forward's rounding hides it: κ is finite, and every layer says that it is limited."""
    torch.manual_seed(0)
    model = families.build(SMALL["vit"].resized(depth=3, heads=1))  # 17 tokens, 12 columns
    with torch.no_grad():
        first, *others = (block.attn.qkv.weight[2 * 12 :] for block in model.blocks)
        first[5] = first[6]
        for values in others:
            values[5] = 0.3 * values[6] + 0.7 * values[8]
    lf.save_pretrained(model, tmp_path / "vit")
    record = lf.measure(str(tmp_path / "vit"), batch=4)
    assert [layer.limited_by_dtype for layer in record.layers] == [4, 4, 4]
    assert "12 values as large as rounding allows: the true κ may be larger; measure again with dtype float64" in (
        record.warnings
    )
    double = lf.measure(str(tmp_path / "vit"), batch=4, dtype="float64")
    assert double.weights == "as saved, in float64"
    assert double.layers[0].kappa.median == math.inf
    for single, wide in zip(record.layers[1:], double.layers[1:], strict=True):
        assert single.kappa.max < 1e10
        assert wide.kappa.median > 3 * single.kappa.median


@pytest.mark.parametrize("key", SMALL)
def test_the_forwards_rounding_is_within_the_factor_that_the_floor_counts(key: str) -> None:
    """The attention of every family, in float32 and from the same inputs in float64."""
    torch.manual_seed(0)
    model = families.build(SMALL[key]).eval()
    blocks = [block for block in families.attention_blocks(model) if block.kind != "class"]
    calls, seen = {}, {}
    for block in blocks:
        _keep_inputs(model.get_submodule(block.path), calls, block.path)
        _keep_inputs(model.get_submodule(block.projection), seen, block.path)
    with torch.no_grad():
        model(**families.example_inputs(SMALL[key]))
        single = {path: args[0].double() for path, (args, _) in seen.items()}
        for block in blocks:
            if not block.projection.startswith(f"{block.path}."):
                continue
            args, kwargs = tree_map(lambda x: x.double() if is_floating(x) else x, calls[block.path])
            model.get_submodule(block.path).double()(*args, **kwargs)
            wide = seen[block.path][0][0]
            error = (single[block.path] - wide).square().mean().sqrt() / wide.square().mean().sqrt()
            assert error < FORWARD_ROUNDING * torch.finfo(torch.float32).eps / math.sqrt(12), block.path


def is_floating(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _keep_inputs(module: torch.nn.Module, kept: dict, name: str) -> None:
    module.register_forward_pre_hook(lambda _, args, kwargs: kept.__setitem__(name, (args, kwargs)), with_kwargs=True)


def test_the_figures(folder: Path, tmp_path: Path) -> None:
    drawn = {
        "layers": figures.kappa_by_layer(lf.measure(str(folder), batch=2)),
        "ranks": figures.rank_by_layer(lf.measure(str(folder), rank=True)),
    }
    for name, made in drawn.items():
        png, svg = style.save(made, tmp_path / name)
        assert png.stat().st_size > 10_000
        assert b"</svg>" in svg.read_bytes()
        assert made.axes[0].get_xlabel() == "layer"
    assert drawn["layers"].axes[0].get_yscale() == "log"
