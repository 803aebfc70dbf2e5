"""The page: one file of HTML with its style and its code inside, for the server and for export alike.

The code is small modules in `page/`, put one after the other. Nothing is loaded from elsewhere, and the policy in the
page's head lets the browser run this code only: its digest is part of the policy.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

from leanformer.foundation.records.files import plain

STYLES = ("base.css", "views.css")
SCRIPTS = (
    *("dom.js", "formats.js", "arithmetic.js", "gaussian.js", "guards.js", "candidates.js", "emit.js"),
    *("plots.js", "sources.js", "sizes.js", "front.js", "design.js"),
    *("measure.js", "runs.js", "studies.js", "claims.js", "paper.js", "main.js"),
)
"""In the order of their imports."""


def page(start: dict[str, Any]) -> str:
    """The whole page; `start` is what it knows when it is opened."""
    style = "".join(_file(name) for name in STYLES)
    code = "".join(_as_part(name) for name in SCRIPTS)
    data = _in_script(start)
    values = {"policy": policy(style, [code]), "style": style, "data": data, "code": code}
    return re.sub(r"\{\{(\w+)\}\}", lambda place: values[place[1]], _file("page.html"))


def policy(style: str, scripts: Sequence[str]) -> str:
    """What the page may do: run this code, use this style, and ask its own server."""
    allowed = " ".join(_digest(script) for script in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_digest(style)}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _file(name: str) -> str:
    return (resources.files("leanformer.app") / "page" / name).read_text(encoding="utf-8")


IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


def _as_part(file: str) -> str:
    """A module as a part of one script: a function that returns its exports, so that its other names are its own."""
    module = _file(file)
    body = EXPORT.sub("", IMPORT.sub(r"const \1 = $\2;", module))
    exports = ", ".join(EXPORT.findall(module))
    return f"const ${file.removesuffix('.js')} = (() => {{\n{body}return {{ {exports} }};\n}})();\n"


def _in_script(value: Any) -> str:
    """JSON that cannot end the element that holds it."""
    text = json.dumps(plain(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
