"""Arguments of the wrong type: one line that names the argument, before anything is read, trained or written."""

from pathlib import Path
from typing import Any

import pytest

import leanformer as lf

SIZES = r'must be sizes, .*"depth=4,heads=8".*, got'
PATH = "must be a path, got"


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (lf.compare, dict(lean=7), f"^lean {SIZES} 7$"),
        (lf.compare, dict(original=5), f"^original {SIZES} 5$"),
        (lf.compare, dict(settings=3), r"^settings must be settings by name, .*, got 3$"),
        (lf.compare, dict(arms=3), "^arms must be names, .*, got 3$"),
        (lf.compare, dict(arms=[1]), r"^arms must be names, .*, got \[1\]$"),
        (lf.compare, dict(arm=3), "^arm must be arms by name, .*, got 3$"),
        (lf.compare, dict(out=3), f"^out {PATH} 3$"),
        (lf.compare, dict(data=3), f"^data {PATH} 3$"),
        (lf.compare, dict(jobs="2"), "^jobs must be a whole number, got '2'$"),
        (lf.compare, dict(jobs=True), "^jobs must be a whole number, got True$"),
        (lf.compare, dict(margin="x"), "^margin must be a number, got 'x'$"),
        (lf.compare, dict(budget=3), "^budget must be a text, .*, got 3$"),
        (
            lf.compare,
            dict(recipe=3),
            "^recipe must be a recipe, the name of one, or a function that returns one, got 3$",
        ),
        (lf.sweep, dict(vary=3), "^vary must be axes with their values, .*, got 3$"),
        (lf.sweep, dict(recipe="digits", vary={"heads": 2}), "^vary must be axes with their values, .*, got "),
        (lf.design, dict(model=3), "^model must be a name, a folder, an architecture or a module, got 3$"),
        (lf.measure, dict(model=3), "^model must be a name, a folder, an architecture or a module, got 3$"),
        (lf.measure, dict(model="gpt2", batch="x"), "^batch must be a whole number or a batch of your own, got 'x'$"),
        (lf.measure, dict(model="gpt2", dtype="int8"), "^dtype must be float32 or float64, got 'int8'$"),
        (lf.glue, dict(start=3), f"^start {PATH} 3$"),
    ],
)
def test_wrong_types_are_one_line(
    function: Any, arguments: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        function(**arguments)
    assert list(tmp_path.iterdir()) == []
