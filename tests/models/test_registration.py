"""Registration with timm and transformers, in fresh processes: whatever is imported first, and however they start."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leanformer.models.registration import _Finder
from support.amount import some
from support.command import COMMAND
from support.processes import ANY_TORCHVISION

TIMM = "import timm; assert timm.is_model('lean_vit_base_patch16_224') and timm.is_model('leanformer_saved')"
AUTO = """
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSequenceClassification
for name in ("lean_gpt2", "lean_bert", "lean_crammed_bert", "lean_stories_gpt", "lean_nystromformer", "lean_points"):
    assert AutoConfig.for_model(name).model_type == name
assert type(AutoConfig.for_model("lean_stories_gpt")) in AutoModelForCausalLM._model_mapping
"""
GONE = "import sys; assert not [f for f in sys.meta_path if type(f).__module__.startswith('leanformer')]"
WAITING = "import sys; assert [f for f in sys.meta_path if type(f).__module__.startswith('leanformer')]"


def python(code: str, *arguments: str, folder: Path | None = None) -> str:
    ran = subprocess.run(
        [sys.executable, *(arguments or ("-c", code))], capture_output=True, text=True, check=False, cwd=folder
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


ORDERS = [
    ("import leanformer", WAITING, "import timm", TIMM, "import transformers", AUTO, GONE),
    ("import leanformer", "from transformers import AutoConfig", AUTO, "from timm.layers import Mlp", TIMM, GONE),
    (ANY_TORCHVISION, "import transformers, timm", "import leanformer", TIMM, AUTO),
    (ANY_TORCHVISION, "from transformers import AutoModel", "import leanformer", AUTO, "import timm", TIMM, GONE),
    ("import leanformer.models.own.point_encoder", AUTO),
    ("import leanformer as lf", "lf.create('gpt2', device='meta')", AUTO, TIMM, "lf.register()", AUTO, TIMM, GONE),
]
FORKED = """
import json, os, sys, traceback
import accelerate, safetensors, scipy.optimize, torch, torch._dynamo, torch.distributed.tensor, torch.export
assert not {"leanformer", "timm", "torchvision", "transformers"} & sys.modules.keys()
said = []
for order in json.loads(sys.argv[1]):
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            exec(order, {"__name__": "__main__"})
        except BaseException:
            os.write(writing, traceback.format_exc()[-3000:].encode())
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as written:
        error = written.read()
    _, status = os.waitpid(child, 0)
    said.append(error or ("" if status == 0 else f"ended with status {status}"))
print(json.dumps(said))
"""
"""Runs each order in a process of its own, forked from one that has imported what the libraries need, but none of them:
torch takes most of the time."""


def test_importing_in_a_fresh_process() -> None:
    python("\n".join(ORDERS[0]))


def test_any_import_order() -> None:
    orders = ["\n".join(order) for order in some(ORDERS[1:], 3)]
    shown = python("", "-c", FORKED, json.dumps(orders)).splitlines()[-1]
    assert json.loads(shown) == [""] * len(orders)


def test_a_package_that_is_run_as_a_module(tmp_path: Path) -> None:
    (tmp_path / "mypkg").mkdir()
    (tmp_path / "mypkg" / "__init__.py").write_text("import leanformer")
    (tmp_path / "mypkg" / "__main__.py").write_text(f"{TIMM}\n{AUTO}\nprint('registered')")
    assert python("", "-m", "mypkg", folder=tmp_path) == "registered\n"


def test_a_program_that_is_called_like_the_command(tmp_path: Path) -> None:
    """How the process was started does not matter."""
    (tmp_path / "leanformer").write_text(f"import leanformer\n{TIMM}\nprint('registered')")
    assert python("", str(tmp_path / "leanformer")) == "registered\n"


def test_importing_is_quick_and_imports_no_library() -> None:
    heavy = "('torch', 'torchvision', 'timm', 'transformers', 'numpy')"
    code = f"import leanformer, leanformer.models.published, sys; print([n for n in {heavy} if n in sys.modules])"
    start = time.perf_counter()
    assert python(code) == "[]\n"
    assert time.perf_counter() - start < 3, "a second, and what a busy machine adds"


def test_the_command_imports_no_library_for_its_help() -> None:
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", COMMAND, "--help"], capture_output=True, text=True, check=True
    )
    assert not [line for line in ran.stderr.splitlines() if line.endswith((" torch", " timm", " transformers"))]


def test_libraries_are_found_as_they_are_without_us() -> None:
    """transformers asks for timm and torchvision long before anybody imports them; that uses nothing up."""
    code = f"""
import leanformer, importlib.resources, importlib.util, inspect, sys
assert importlib.util.find_spec("timm").origin.endswith("__init__.py")
{TIMM}
assert type(timm.__loader__).__name__ == type(timm.__spec__.loader).__name__ == "SourceFileLoader"
assert "create_model" in inspect.getsource(timm)
assert importlib.resources.files("timm").joinpath("version.py").is_file()
assert leanformer.architecture_of("vit_tiny_patch16_224").depth == 12
assert "transformers" not in sys.modules, "models of timm need no transformers"
"""
    python(code)


def test_an_import_that_fails_may_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "library_of_this_test.py"
    library.write_text("raise RuntimeError('not yet')")
    ran = []

    def execute(loader, module) -> None:
        loader.exec_module(module)
        ran.append(module.__name__)

    finder = _Finder({"library_of_this_test": execute})
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RuntimeError, match="not yet"):
        __import__("library_of_this_test")
    library.write_text("ready = True")
    assert __import__("library_of_this_test").ready
    assert ran == ["library_of_this_test"]
    assert finder not in sys.meta_path
    monkeypatch.delitem(sys.modules, "library_of_this_test")
