"""`leanformer explore`: its arguments, its exported page, and what the page is made of."""

import re
import urllib.request
from importlib import resources
from pathlib import Path
from unittest import mock

import pytest
from playwright.sync_api import expect

import leanformer as lf
from leanformer.app import designs, pages
from leanformer.app.server import Explorer
from leanformer.costs.closed_forms import formula
from support import browser
from support.command import call

FILES = {path.name: path.read_text(encoding="utf-8") for path in (resources.files("leanformer.app") / "page").iterdir()}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Counted once, instead of for each of the eight settings."""
    path = tmp_path_factory.mktemp("exported") / "design.html"
    with mock.patch.object(designs, "formula", lambda base, setting: formula(base)):
        shown = call("explore", "--export", str(path), "--model", "farthest-point")
    assert (shown.returncode, shown.stdout) == (0, ""), shown.stderr
    assert "design.html" in shown.stderr.replace("\n", "")
    return path


def test_the_exported_page_needs_no_server(exported: Path) -> None:
    assert len(exported.read_bytes()) < 300_000
    with browser.chromium() as chromium:
        watched = browser.Watched(chromium, "file://")
        page = watched.page
        page.goto(f"file://{exported}#design?model=farthest-point&stages=2x6x32x64")
        expect(page.locator("#figure-params .now")).to_be_visible()
        expect(page.locator("#field-heads")).to_have_value("6")
        page.locator("#precision").select_option("bfloat16")
        page.locator("#checkpointing").check()
        page.get_by_role("button", name="Hugging Face").click()
        expect(page.locator("pre")).to_contain_text("print(model.config.to_json_string())")
        assert page.locator("nav[aria-label=Views] a").count() == 0
        assert watched.violations() == []
        assert watched.wrong == []


def test_the_page_loads_nothing_from_elsewhere(exported: Path) -> None:
    text = exported.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\s\"'<>]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=\"(?!data:)", text)


def test_the_page_is_made_of_all_its_files_and_reads_no_html() -> None:
    assert FILES.keys() == {"page.html", *pages.STYLES, *pages.SCRIPTS}
    for name, text in FILES.items():
        assert len(text.splitlines()) <= 500, name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            name
        )


def test_data_cannot_end_the_element_that_holds_them() -> None:
    text = pages.page({"static": None, "folder": "</script><script>alert(1)</script>", "names": {}, "first": ""})
    assert text.count("</script>") == 2
    assert "alert(1)\\u003c/script\\u003e" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explore", "no-such-folder"], "no-such-folder is not a folder"),
        (["explore", "--model", "gpt2"], "--model goes with --export: the explorer itself shows every model"),
        (
            ["explore", "--export", "x.html", "--model", "vit"],
            "there is no model of that name: `leanformer models` lists",
        ),
        (["explore", "--port", "99999"], "Invalid value for"),
    ],
)
def test_bad_arguments_are_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = call(*arguments)
    assert shown.returncode == 2
    assert shown.stderr.startswith(f"leanformer: {message}")
    assert not list(tmp_path.iterdir())


def test_an_export_is_refused_before_anything_is_counted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"file cannot be written to: .*; name another folder by export"):
        lf.explore(export=tmp_path / "file" / "page.html")


def test_an_export_takes_a_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"export takes the name of a file, such as design\.html, got the folder"):
        lf.explore(export=tmp_path)
    with pytest.raises(ValueError, match="port must be between 0 and 65535, got 70000"):
        lf.explore(tmp_path, port=70_000)


def test_it_serves_until_it_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served, opened = [], []

    def interrupted(explorer: Explorer) -> None:
        with urllib.request.urlopen(explorer.url, timeout=60) as answer:
            served.append((explorer.url, answer.read().decode()))
        raise KeyboardInterrupt

    monkeypatch.setattr(Explorer, "_warm_up", lambda self: None)
    monkeypatch.setattr("leanformer.app.explore._serve", interrupted)
    monkeypatch.setattr("webbrowser.open", opened.append)
    shown = call("explore", str(tmp_path), "--port", "0")
    ((address, page),) = served
    assert shown.returncode == 0
    assert shown.stderr == f"the explorer is at {address} (stop it with Ctrl-C)\n"
    assert "leanformer explorer" in page
    assert opened == [address]
    assert call("explore", str(tmp_path), "--port", "0", "--no-browser").returncode == 0
    assert len(opened) == 1
