"""The wheel and the sdist: what is in them, and that the wheel works where there is no checkout."""

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import leanformer

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    return folder


def test_the_wheel_has_the_whole_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"leanformer-{leanformer.__version__}-py3-none-any.whl"
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    files = {path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    records = {f"leanformer/paper/{path.relative_to(ROOT)}" for path in (ROOT / "results").rglob("*.json")}
    assert packed == {str(path.relative_to(source)) for path in files if ".egg-info" not in str(path)} | records


def test_the_sdist_has_what_a_packager_needs(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "Makefile", "tests/test_package.py"} <= names
    assert not [name for name in names if name.startswith((".venv", "runs/", "build/"))]


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel. It borrows the dependencies of the tests' environment, but not the checkout."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, symlinks=True)
    (wheel,) = built.glob("*.whl")
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    (packages,) = (place / "lib").glob("python*/site-packages")
    here = Path(next(path for path in sys.path if path.endswith("site-packages")))
    (packages / "dependencies.pth").write_text(
        f"{here}\n"
    )  # .pth files in that folder, as the checkout's, are not read
    return place / "bin"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("compare digits --steps 2 --seeds 1 --jobs 1 --set training.probe=0", "lean"),
        ("paper", "holds under another reading"),
    ],
)
def test_the_wheel_works_without_a_checkout(installed: Path, tmp_path: Path, command: str, shown: str) -> None:
    done = subprocess.run(
        [installed / "leanformer", *command.split()], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


def test_the_wheel_is_what_runs(installed: Path, tmp_path: Path) -> None:
    code = "import leanformer; print(leanformer.__file__, leanformer.__version__)"
    shown = subprocess.run([installed / "python", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    file, version = shown.stdout.split()
    assert Path(file).is_relative_to(installed.parent)
    assert version == leanformer.__version__
