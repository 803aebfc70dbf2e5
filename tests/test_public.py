"""The public names, and what importing the package costs."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import leanformer as lf


@pytest.mark.parametrize("name", lf.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(lf, name) is not None
    assert name in (*dir(lf), "__version__")


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="module 'leanformer' has no attribute 'fold'"):
        _ = lf.fold


def test_importing_is_light_whatever_the_program_is_called() -> None:
    program = (
        "import sys; sys.argv = {argv!r}; import leanformer;"
        "print([m for m in ('torch', 'timm', 'transformers', 'numpy', 'pydantic', 'rich') if m in sys.modules])"
    )
    for argv in ([""], ["leanformer"], ["-m"], ["train.py"]):
        command = [sys.executable, "-c", program.format(argv=argv)]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_no_module_hides_a_public_name() -> None:
    """Also after every module of the package has been imported."""
    source = Path(lf.__file__).parent
    for path in source.rglob("*.py"):
        if path.stem not in ("__init__", "__main__"):
            importlib.import_module(".".join(["leanformer", *path.relative_to(source).with_suffix("").parts]))
    for name in lf.__all__:
        assert not isinstance(getattr(lf, name), ModuleType), name
