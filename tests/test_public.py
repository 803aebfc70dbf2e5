"""The public names, and what importing the package costs."""

import subprocess
import sys

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
