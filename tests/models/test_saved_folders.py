"""Saved folders as others read them: another head, features, names of classes, a card; and folders of 0.1."""

import json
from pathlib import Path

import pytest
import timm
import torch
from torch import nn

import leanformer as lf
from leanformer.models import families
from support.architectures import SMALL, TIMM

LEAN = {key: SMALL[key].resized(heads=[2 * stage.heads for stage in SMALL[key].stages]) for key in TIMM}
"""Heads that together are twice as wide as the model: timm's constructors cannot build them."""


def images(key: str) -> torch.Tensor:
    return families.example_inputs(SMALL[key])["x"]


def answers(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(x)


# Through timm


@pytest.mark.parametrize("key", TIMM)
def test_timm_gives_a_lean_model_another_head(key: str, tmp_path: Path) -> None:
    model = families.build(LEAN[key])
    lf.save_pretrained(model, tmp_path, preprocessing={"label_names": list("abcdefghij")})
    again = timm.create_model(f"local-dir:{tmp_path}", pretrained=True, num_classes=7)
    assert answers(again, images(key)).shape == (2, 7)
    assert "label_names" not in again.pretrained_cfg
    ours, theirs = model.state_dict(), again.state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in theirs.items() if "head" not in name)
    none = timm.create_model(f"local-dir:{tmp_path}", pretrained=True, num_classes=0)
    assert answers(none, images(key)).shape == (2, model.num_features)


@pytest.mark.parametrize("key", TIMM)
def test_timm_gives_the_features_of_a_lean_model(key: str, tmp_path: Path) -> None:
    model = families.build(LEAN[key]).eval()
    lf.save_pretrained(model, tmp_path)
    wrapped = timm.create_model(f"local-dir:{tmp_path}", pretrained=True, features_only=True, out_indices=(0, 1)).eval()
    x = images(key)
    with torch.no_grad():
        found, wanted = wrapped(x), model.forward_intermediates(x, indices=(0, 1), intermediates_only=True)
    if key == "swin":  # whose features timm gives with the channels last
        found = [features.permute(0, 3, 1, 2) for features in found]
    assert len(found) == 2
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(found, wanted, strict=True))
    assert [features.shape[1] for features in found] == wrapped.feature_info.channels()


def test_features_are_those_of_upstream(tmp_path: Path) -> None:
    """Of a model as timm has it; and what timm cannot give is refused in one line."""
    upstream = lf.create("vit_tiny_patch16_224", depth=4, img_size=32, num_classes=5)
    lf.save_pretrained(upstream, tmp_path)
    theirs = timm.create_model("vit_tiny_patch16_224", depth=4, img_size=32, features_only=True)
    ours = timm.create_model(f"local-dir:{tmp_path}", pretrained=True, features_only=True)
    theirs.load_state_dict({f"model.{name}": value for name, value in upstream.state_dict().items()}, strict=False)
    x = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        assert all(torch.equal(a, b) for a, b in zip(ours.eval()(x), theirs.eval()(x), strict=True))
        assert len(timm.create_model("lean_vit_base_patch16_224", features_only=True, img_size=32)(x)) == 3
    with pytest.raises(
        ValueError, match=r"features of out_indices=9, feature_cls='getter': last-n \(9\) is out"
    ) as said:
        timm.create_model(f"local-dir:{tmp_path}", pretrained=True, features_only=True, out_indices=9)
    assert "\n" not in str(said.value)


def test_folders_of_0_1_are_read_by_timm(tmp_path: Path) -> None:
    model = families.build(LEAN["vit"])
    lf.save_pretrained(model, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architecture"] == "leanformer_saved", "without leanformer, timm's error names it"
    (tmp_path / "config.json").write_text(json.dumps({**config, "architecture": "lean_saved"}))
    again, x = timm.create_model(f"local-dir:{tmp_path}", pretrained=True), images("vit")
    assert torch.equal(answers(again, x), answers(model, x))


ADAPTED = {key: ({"in_chans": 1}, {"in_chans": 5}, {"img_size": 96}) for key in TIMM} | {"volo": ({"in_chans": 1},)}
"""What timm fits the weights of its own models to; it has no rule for VOLO's positions."""


@pytest.mark.parametrize("key", TIMM)
def test_timm_fits_the_weights_to_other_images_as_it_does_for_its_own_models(key: str, tmp_path: Path) -> None:
    model = families.build(SMALL[key])
    lf.save_pretrained(model, tmp_path, preprocessing={"mean": [0.1, 0.2, 0.3], "std": [0.5] * 3})
    name, options = SMALL[key].name, dict(SMALL[key].options)
    for changed in ADAPTED[key]:
        again = timm.create_model(f"local-dir:{tmp_path}", pretrained=True, **changed)
        overlay = {"state_dict": model.state_dict(), "num_classes": 10}
        family = families.family(SMALL[key].family)
        plain = {**family.arguments(SMALL[key]), **family.timm_options({**options, **changed})}
        if key != "volo":  # whose constructor in timm takes no other depth
            theirs = timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay, **plain)
            assert all(torch.equal(a, theirs.state_dict()[name]) for name, a in again.state_dict().items())
        channels, side = changed.get("in_chans", 3), changed.get("img_size", options["img_size"])
        assert answers(again, torch.randn(2, channels, side, side)).shape == (2, 10)
        stated = timm.data.resolve_model_data_config(again)
        assert tuple(stated["input_size"]) == (channels, side, side)
        assert list(stated["mean"]) == pytest.approx([0.1, 0.2, 0.3] if channels == 3 else [0.2] * channels)
        assert lf.describe(again).options["img_size"] == side


def test_timm_fits_the_weights_of_lean_models_with_another_head_and_features(tmp_path: Path) -> None:
    model = families.build(LEAN["vit"])
    lf.save_pretrained(model, tmp_path)
    x = torch.randn(2, 1, 64, 64)
    changed = {"pretrained": True, "img_size": 64, "in_chans": 1}
    again = timm.create_model(f"local-dir:{tmp_path}", num_classes=7, **changed)
    assert answers(again, x).shape == (2, 7)
    lf.save_pretrained(again, tmp_path / "again")
    assert torch.equal(answers(lf.from_pretrained(tmp_path / "again"), x), answers(again, x))
    features = timm.create_model(f"local-dir:{tmp_path}", features_only=True, out_indices=(0, 1), **changed)
    assert [found.shape for found in answers(features, x)] == [(2, 48, 8, 8)] * 2
    patches = timm.create_model(f"local-dir:{tmp_path}", pretrained=True, patch_size=4)
    assert answers(patches, images("vit")).shape == (2, 10)


REFUSED = [
    ("volo", {}, {"img_size": 96}, "does not fit this model: option img_size: 96 in the model, 64 in the checkpoint"),
    ("vit", {"in_chans": 1}, {"in_chans": 3}, "does not fit this model: option in_chans: 3 in the model, 1 in the"),
    (
        "vit",
        {"img_size": [16, 64]},
        {"img_size": 32},
        "positions lie on a grid of 2 × 8, and timm resamples square ones",
    ),
    ("tnt", {}, {"img_size": [16, 64]}, "positions lie on a grid of 2 × 2, and timm does not resample them to 1 × 4"),
    ("vit", {}, {"depth": 3}, "a saved model has the sizes it was made with: leave out depth=3, or use lf.create"),
    ("vit", {}, {"nonsense": 1}, "timm's vit_tiny_patch16_224 does not take that option"),
    ("vit", {}, {"features_only": True, "img_size": 64}, "out_indices=3, feature_cls='getter': last-n (3) is out of"),
]


@pytest.mark.parametrize(("key", "saved", "options", "message"), REFUSED)
def test_timm_refuses_a_model_that_does_not_fit_its_weights(
    key: str, saved: dict, options: dict, message: str, tmp_path: Path
) -> None:
    lf.save_pretrained(families.build(SMALL[key].with_options(**saved)), tmp_path)
    with pytest.raises(ValueError) as refused:
        timm.create_model(f"local-dir:{tmp_path}", pretrained=True, **options)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_could_not_be_built_again_is_not_saved(tmp_path: Path) -> None:
    """timm's models do not remember with which options they were made."""
    model = timm.create_model("vit_tiny_patch16_224", depth=1, img_size=32)
    with pytest.raises(ValueError, match=r"cannot be saved: it has options that it does not state, by which pos_embed"):
        lf.save_pretrained(model, tmp_path)
    assert not list(tmp_path.iterdir())


# Names of classes, cards, places


def test_classes_have_names_in_transformers(tmp_path: Path) -> None:
    model = families.build(SMALL["nystromformer"])
    names = [f"digit {label}" for label in range(10)]
    lf.save_pretrained(model, tmp_path, preprocessing={"label_names": names})
    assert not (tmp_path / "preprocessing.json").exists()
    again = lf.from_pretrained(tmp_path)
    assert [again.config.id2label[label] for label in range(10)] == names
    assert again.config.label2id["digit 9"] == 9
    assert lf.describe(again) == lf.describe(model)
    assert model.config.id2label[0] == "LABEL_0", "the model that was saved is left as it was"
    lf.save_pretrained(again, tmp_path / "again")
    assert lf.from_pretrained(tmp_path / "again").config.id2label[9] == "digit 9"
    for key in ("nystromformer", "vit"):
        with pytest.raises(ValueError, match="label_names has 2 names, the model has 10 classes"):
            lf.save_pretrained(families.build(SMALL[key]), tmp_path / "no", preprocessing={"label_names": ["a", "b"]})
    assert not (tmp_path / "no").exists()


def test_a_card_says_how_to_load_the_model(tmp_path: Path) -> None:
    for key, code, needed, missing in (
        ("vit", False, 'timm.create_model("local-dir:FOLDER", pretrained=True)', "transformers"),
        ("gpt2", True, 'AutoModelForCausalLM.from_pretrained("FOLDER", trust_remote_code=True)', "timm"),
        ("gpt2", False, "import leanformer  # makes the model known to transformers", "trust_remote_code"),
        ("llama", False, "from transformers import LlamaForCausalLM", "import leanformer"),
    ):
        lf.save_pretrained(families.build(SMALL[key]), tmp_path / key, code=code)
        text = (tmp_path / key / "README.md").read_text()
        assert needed in text
        assert missing not in text
        assert "parameters." in text
    (tmp_path / "vit" / "README.md").write_text("mine")
    lf.save_pretrained(families.build(SMALL["vit"]), tmp_path / "vit")
    assert (tmp_path / "vit" / "README.md").read_text() == "mine"


def test_a_folder_that_cannot_be_written_to_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for key in ("vit", "gpt2"):
        for folder in (tmp_path / "file", tmp_path / "file" / "x", "/proc/nothing", "a\0b"):
            with pytest.raises(ValueError, match="cannot be written to: ") as refused:
                lf.save_pretrained(families.build(SMALL[key]), folder)
            assert "\n" not in str(refused.value)
