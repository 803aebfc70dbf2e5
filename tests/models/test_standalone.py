"""Folders with the model's code: transformers reads them in a process in which leanformer cannot be imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers

import leanformer as lf
from leanformer.models import families, standalone
from support.architectures import SMALL
from support.processes import ANY_TORCHVISION

KEYS = [key for key, made in SMALL.items() if getattr(families.family(made.family), "auto_classes", None)]
"""Families whose classes are ours."""

READ = """
import json, sys
from importlib.abc import MetaPathFinder


class Missing(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("leanformer", "jaxtyping", "timm", "pydantic"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Missing())
import torch
import transformers

said = {}
for key, (folder, auto) in json.loads(sys.argv[1]).items():
    auto = getattr(transformers, auto)
    model = auto.from_pretrained(folder, trust_remote_code=True).eval()
    inputs, wanted = torch.load(f"{folder}/expected.pt", weights_only=True)
    with torch.no_grad():
        torch.testing.assert_close(model(**inputs).logits, wanted, rtol=0, atol=0)
    model.save_pretrained(f"{folder}/again")
    auto.from_pretrained(f"{folder}/again", trust_remote_code=True)
    said[key] = ""
try:
    auto.from_pretrained(folder)
except ValueError as error:
    said[key] = str(error)
with open(sys.argv[2], "w") as file:
    json.dump(said, file)
"""


def auto_class(model: torch.nn.Module) -> str:
    listed = families.of(model).auto_classes
    return next(auto.__name__ for auto, cls in listed.items() if cls is type(model))


def test_auto_classes_read_a_folder_with_code_without_leanformer(tmp_path: Path) -> None:
    folders = {}
    for key in KEYS:
        torch.manual_seed(0)
        made = SMALL[key].resized(heads=[2 * stage.heads for stage in SMALL[key].stages])
        if made.family in ("gpt2", "bert", "crammed-bert", "story-gpt"):
            made = SMALL[key].resized(heads=[4, 8])  # a schedule, layer by layer
        model, inputs = families.build(made).eval(), families.example_inputs(made)
        lf.save_pretrained(model, tmp_path / key, code=True)
        with torch.no_grad():
            torch.save((inputs, model(**inputs).logits), tmp_path / key / "expected.pt")
        folders[key] = (str(tmp_path / key), auto_class(model))
    environment = {**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HUB_OFFLINE": "1"}
    arguments = [sys.executable, "-c", ANY_TORCHVISION + READ, json.dumps(folders), tmp_path / "said.json"]
    ran = subprocess.run(
        arguments, capture_output=True, text=True, check=False, env=environment, stdin=subprocess.DEVNULL
    )
    assert ran.returncode == 0, ran.stderr
    said = json.loads((tmp_path / "said.json").read_text())
    assert said.keys() == folders.keys()
    assert "trust_remote_code=True" in said[KEYS[-1]], "code is not run unasked"


@pytest.mark.parametrize("key", ["gpt2", "nystromformer"])
def test_here_the_code_of_a_folder_is_not_run(key: str, tmp_path: Path) -> None:
    model = families.build(SMALL[key])
    lf.save_pretrained(model, tmp_path, code=True)
    (tmp_path / "modeling_leanformer.py").write_text("raise SystemExit('code of the folder ran')")
    again = lf.from_pretrained(tmp_path)
    assert type(again) is type(model)
    assert type(getattr(transformers, auto_class(model)).from_pretrained(tmp_path)) is type(model)
    lf.save_pretrained(again, tmp_path / "plain")
    assert "auto_map" not in json.loads((tmp_path / "plain" / "config.json").read_text())
    assert not (tmp_path / "plain" / "modeling_leanformer.py").exists()


def test_models_that_need_no_code_or_can_have_none(tmp_path: Path) -> None:
    lf.save_pretrained(families.build(SMALL["llama"]), tmp_path / "llama", code=True)
    assert "auto_map" not in json.loads((tmp_path / "llama" / "config.json").read_text())
    assert not (tmp_path / "llama" / "modeling_leanformer.py").exists()
    with pytest.raises(
        ValueError, match="timm runs no code of a folder, so a VisionTransformer needs leanformer there"
    ):
        lf.save_pretrained(families.build(SMALL["vit"]), tmp_path / "vit", code=True)
    assert not (tmp_path / "vit" / "config.json").exists()


def test_the_file_holds_nothing_that_is_not_used() -> None:
    family = families.family("point-encoder")
    text = standalone.source([family.config_class, *family.auto_classes.values()])
    for name in ("class PointEncoderModel(", "class SelfAttention(", "class Architecture", "check_tokens"):
        assert name in text
    for name in (
        "import leanformer",
        "from leanformer",
        "jaxtyping",
        "Float[",
        "class PointEncoder(",
        "closed_form",
        "OwnFamily",
    ):
        assert name not in text.partition('"""\n')[2], name


ONE = """
from strange.two import Base as Other
from strange.two import helper

SIZE = 1


class Renamed(Other):
    size = SIZE

    def both(self):
        return SIZE, helper()


class Twice:
    def size(self, SIZE):
        return SIZE, helper()


class Unknown:
    def forward(self):
        return never_defined
"""
TWO = """
SIZE = 2


class Base: ...


def helper():
    return SIZE
"""


def test_two_modules_may_use_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "strange").mkdir()
    for name, text in (("one", ONE), ("two", TWO)):
        (tmp_path / "strange" / f"{name}.py").write_text(text)
    from strange import one

    found: dict = {}
    exec(standalone.source([one.Renamed]), found)
    assert found["Renamed"]().both() == (1, 2) == one.Renamed().both()
    assert found["Renamed"].__base__.__name__ == "Base"
    with pytest.raises(ValueError, match=r"strange\.one does not say what never_defined is"):
        standalone.source([one.Unknown])
    with pytest.raises(ValueError, match="was not read from a file"):
        standalone.source([int])
