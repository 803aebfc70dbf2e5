"""Designs in YAML files: exact for every family, read wherever a name is, refused with the line."""

from pathlib import Path

import pytest

import leanformer as lf
from leanformer.designing.emit import emit
from leanformer.models.design_files import read_design
from support.architectures import SMALL

TEXT = """\
family: vit
name: vit_tiny_patch16_224
stages:
- {width: 16, depth: 2, heads: 2, head_dim: 8, mlp_dim: 32}
options: {img_size: 8, patch_size: 4, in_chans: 1, num_classes: 10}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "design.yaml"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize("key", SMALL)
def test_what_design_emits_is_read_back_exactly(key: str, file: Path) -> None:
    file.write_text(emit(SMALL[key], "yaml"))
    assert read_design(file) == SMALL[key]


def test_a_schedule_of_heads_is_read_back(file: Path) -> None:
    design = lf.architecture_of("vit_tiny_patch16_224", heads=[2, 2, 4], img_size=32)
    file.write_text(emit(design, "yaml"))
    assert lf.architecture_of(str(file)) == design


def test_a_file_stands_for_a_name(file: Path) -> None:
    model = lf.create(str(file), heads=4, num_classes=3)
    assert lf.describe(model).stages[0].heads == 4
    assert model.num_classes == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: vit_tiny_patch16_224\n", "", "line 1: this is not a design: it lacks name"),
        ("name:", "nam:", "line 2: this is not a design: it has an unknown nam; needed are family, name, stages, opt"),
        ("family: vit", "family: vti", r'line 1: there is no family "vti": did you mean vit'),
        ("family: vit", "family: 3", "line 1: family must be a text, got 3"),
        ("family: vit", "family: /x/mine.py:Family", 'line 1: "/x/mine.py:Family": there is no file /x/mine.py'),
        ("heads: 2", "heads: two", "line 4: heads must be a whole number, got 'two'"),
        ("heads: 2", "heads: 0", "line 4: heads must be at least 1, got 0"),
        (", heads: 2", "", "line 4: a stage has exactly width, depth, heads, head_dim, mlp_dim; got"),
        ("stages:\n- ", "stages: ", "line 3: stages must be a list, got"),
        ("options: {img", "options: [1]\n# {img", r"line 5: options must be values by name, got \[1\]"),
        ("family:", "task: x\nfamily:", "line 1: this is a recipe; needed is a design with family, name and stages"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(old: str, new: str, message: str, file: Path) -> None:
    assert old in TEXT
    file.write_text(TEXT.replace(old, new))
    with pytest.raises(ValueError, match=message) as raised:
        lf.create(str(file))
    assert len(str(raised.value).splitlines()) == 1
