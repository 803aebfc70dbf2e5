"""Closed forms of one small model of every family, kept in a file: to count them takes half a minute.

`cd tests && python -m support.formulas` writes the file again. The complete tests compare it with what is counted.
"""

import json
from pathlib import Path
from typing import Any

from leanformer.app.designs import coefficients, setting_of
from leanformer.costs.closed_forms import Count, Formula, Polynomial, formula
from leanformer.costs.references import DESIGNS, resized
from leanformer.models import families
from support.architectures import SMALL

FILE = Path(__file__).parents[1] / "fixtures" / "formulas.json"
SETTINGS = [
    {"precision": precision, "attention": attention, "checkpointing": checkpointing}
    for precision in ("float32", "bfloat16")
    for attention in ("fused", "explicit")
    for checkpointing in ("false", "true")
]


def setting(name: str) -> dict[str, str]:
    """Each family has one of the eight settings."""
    return SETTINGS[list(SMALL).index(name) % len(SETTINGS)]


def counted(name: str) -> dict[str, Any]:
    return coefficients(formula(SMALL[name], setting_of(setting(name))))


def stored() -> dict[str, dict[str, Any]]:
    return json.loads(FILE.read_text(encoding="utf-8"))


def read(name: str, plain: dict[str, Any]) -> Formula:
    """The formula of coefficients in plain form."""
    base = SMALL[name]
    unit = families.family(base.family).head_unit(base)
    return Formula(
        reference=resized(base, DESIGNS[0], unit),
        unit=plain["unit"],
        tokens=tuple(plain["tokens"]),
        params=_count(plain["params"]),
        embedding=int(plain["embedding"]),
        forward_macs=tuple(map(_count, plain["forward_macs"])),
        saved=tuple(map(_count, plain["saved"])),
        transient=tuple(plain["transient"]),
    )


def _count(plain: dict[str, Any]) -> Count:
    return Count(
        scale=int(plain["scale"]),
        stages=tuple(map(_polynomial, plain["stages"])),
        tail=_polynomial(plain["tail"]),
        outside=int(plain["outside"]),
        outside_per_head_dim=int(plain["outside_per_head_dim"]),
    )


def _polynomial(plain: list[str]) -> Polynomial:
    one, h, d, hd, hdd, constant, slope, other = map(int, plain)
    return Polynomial((one, h, d, hd, hdd), (constant, slope), other)


if __name__ == "__main__":
    lines = (f" {json.dumps(name)}: {json.dumps(counted(name), separators=(',', ':'))}" for name in SMALL)
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
