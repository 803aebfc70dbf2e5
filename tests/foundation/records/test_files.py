"""Files of records: strict JSON that holds infinity."""

import json
import math
from pathlib import Path

from leanformer.foundation.records.files import number, read_json, write_json


def test_records_hold_infinity(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"kappa": [math.inf, 2.0], "n": 3})
    kept = json.loads((tmp_path / "a.json").read_text())
    assert kept == {"kappa": ["inf", 2.0], "n": 3} == read_json(tmp_path / "a.json")
    assert [number(value) for value in kept["kappa"]] == [math.inf, 2.0]
