"""Tables: names are shown as text, whatever they hold."""

import io

import pytest
from rich.console import Console

from leanformer.report import tables


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a|b", "a\\|b"),
        ("$x$", "\\$x\\$"),
        ("<script>", "&lt;script>"),
        ("&lt;b", "&amp;lt;b"),
        ("R&D 5", "R&amp;D 5"),
        ("a & b", "a & b"),
        ("[a](javascript:x)", "[a\\](javascript:x)"),
        ("[1, 2]", "[1, 2]"),
        ("`rm`", "\\`rm\\`"),
        ("a\\b\nc", "a\\\\b c"),
    ],
)
def test_markdown_shows_names_as_they_are(name: str, shown: str) -> None:
    assert tables.markdown_text(name) == shown


@pytest.mark.parametrize(
    ("text", "shown"), [("a b", "`a b`"), ("a `b`", "`` a `b` ``"), ("``` x\ny", "```` ``` x y ````"), ("$x$", "`$x$`")]
)
def test_code_cannot_end_early(text: str, shown: str) -> None:
    assert tables.markdown_code(text) == shown


def test_the_terminal_shows_brackets() -> None:
    shown = io.StringIO()
    Console(file=shown).print(tables.terminal("[red]t", ["[/]"], [["[bold]x[/]"]]))
    for text in ("[red]t", "[/]", "[bold]x[/]"):
        assert text in shown.getvalue()
