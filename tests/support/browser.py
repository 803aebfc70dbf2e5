"""Debian's Chromium, driven without a window: what the tests of the explorer need."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from filelock import FileLock
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


def executable() -> str:
    """Where Chromium is. It is installed if it is missing and this user may; else the tests fail with one line."""
    with FileLock(Path(tempfile.gettempdir()) / "leanformer-tests-chromium.lock"):
        if (found := _found()) is None and os.geteuid() == 0 and shutil.which("apt-get"):
            for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
                subprocess.run(["apt-get", "-qq", *command], check=False, capture_output=True)
            found = _found()
    if found is None:
        pytest.fail("the tests of the explorer need Chromium: apt-get install chromium", pytrace=False)
    return found


def _found() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    place = executable()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=place, args=list(OPTIONS))
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page, and what went wrong in it: errors on its console, and requests to anywhere but its own server."""

    def __init__(self, browser: Browser, home: str, **context: Any) -> None:
        self.page: Page = browser.new_context(**context).new_page()
        self.page.set_default_timeout(30_000)
        self.wrong: list[str] = []
        self.page.on("console", lambda said: self._note(said.type in ("error", "warning"), said.text))
        self.page.on("pageerror", lambda error: self._note(True, str(error)))
        self.page.on("request", lambda asked: self._note(not asked.url.startswith((home, "data:")), asked.url))

    def _note(self, is_wrong: bool, what: str) -> None:
        if is_wrong:
            self.wrong.append(what)

    def violations(self) -> list[str]:
        """What axe finds that is serious or critical."""
        found = Axe().run(self.page).response["violations"]
        return [
            f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in ("serious", "critical")
        ]
