"""docs/how_to/own_data.md as a reader follows it: every command is run, with small models and few steps."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from leanformer.experiments import forecast
from support.command import call
from support.texts import reviews, write_table

PAGE = (Path(__file__).parents[2] / "docs" / "how_to" / "own_data.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^leanformer (.*)$", PAGE, re.MULTILINE)
SMALL = ["--original", "depth=2,heads=2,head_dim=8,width=16,mlp_dim=32", "--lean", "depth=1", "--arms", "lean"]
QUICK = ["--steps", "1", "--batch", "4", "--seeds", "1", "--jobs", "1", "--set", "training.probe=0"]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(forecast, "STEPS", forecast.FIRST_STEPS + 2)
    texts = reviews(400)
    Path("book.txt").write_text("\n\n".join(text for text, _ in texts))
    Path("mails.jsonl").write_text("".join(json.dumps({"body": text, "from": "me"}) + "\n" for text, _ in texts))
    write_table(Path("reviews.csv"), ("id", "review", "verdict"), [(n, *row) for n, row in enumerate(texts)])
    for name in ("cat", "dog"):
        folder = Path("photos") / name
        folder.mkdir(parents=True)
        for number in range(10):
            pixels = np.random.default_rng(number).integers(0, 255, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.png")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_run(command: str) -> None:
    images = ["--set", "task.img_size=32"] if " images " in command else []
    shown = call(*shlex.split(command), *SMALL, *QUICK, *images)
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"data: .*(photos|book|mails|reviews).*: [\d,]+ training and [\d,]+", shown.stderr)
    assert Path("runs").exists() == ("--dry-run" not in command)


def test_there_are_commands_for_every_recipe() -> None:
    assert {command.split()[1] for command in COMMANDS} == {"images", "texts", "texts-masked", "classify"}
