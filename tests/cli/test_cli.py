"""The command line as a user meets it: what it prints, in which form, and one clear line on a mistake."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import call, run


def test_help_lists_the_commands_and_loads_nothing_heavy() -> None:
    shown = run("--help")
    assert shown.returncode == 0
    assert "paper" in shown.stdout
    probe = "import sys; sys.argv = ['leanformer']; import leanformer.cli; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout == "False\n"


def test_version_is_the_packages() -> None:
    import leanformer

    assert run("--version").stdout == f"leanformer {leanformer.__version__}\n"


def test_paper_as_json() -> None:
    shown = call("paper", "--table", "Tab. 2", "--json")
    answer = json.loads(shown.stdout)
    assert [row["params"] for row in answer["rows"]] == [89_160_785, 64_150_609, 64_085_073]
    assert answer["rows"][1]["status"] == "matches"
    assert answer["rows"][1]["architecture"]["stages"][0]["head_dim"] == 32
    assert answer["summary"] == "2 of 2 printed counts match as printed, 0 under another reading, 0 stay unexplained."


def test_paper_as_a_table_and_as_markdown() -> None:
    table = call("paper", "--table", "Tab. 1").stdout
    assert "119,589,889" in table
    assert "split, head_dim 32" in table
    markdown = call("paper", "--table", "Tab. 1", "--markdown").stdout.splitlines()
    recount = markdown[markdown.index("## The tables, recounted") :]
    assert recount[2].startswith("| table | model |")
    assert recount[5].startswith("| Tab. 1 | Crammed BERT | lean | 10 | 24 |")
    assert "84 M | 84,182,017 | split, head_dim 32 | matches |" in recount[5]


def test_paper_shows_one_figure_and_its_claims() -> None:
    shown = call("paper", "--table", "fig. 8").stdout
    assert "Figure 8, caption" in shown
    assert "Leaner Transformers: of 3 claims" in shown
    assert "Theorem 3.2" not in shown
    assert "recount" not in shown, "no table is part of it"


def test_models_lists_names() -> None:
    listed = json.loads(call("models", "--json").stdout)
    assert "vit_base_patch16_224" in listed["vit"]
    assert "lean_vit_base_patch16_224" in listed["lean"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["paper", "--table", "Tab. 9"], 'there is no table or figure "Tab. 9"; there are "Tab. 1" to'),
        (["paper", "--json", "--markdown"], "--json and --markdown exclude each other"),
        (["models", "zzz"], "no model name contains 'zzz'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    shown = run(*arguments)
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert message in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"RANK": "7"}, "RANK is 7, and WORLD_SIZE is 1: ranks go from 0 to 0. Start several processes with torchrun"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "ranks go from 0 to 1"),
        ({"RANK": "x"}, "RANK must be a whole number from 0 on, got 'x'"),
        ({"RANK": "²"}, "RANK must be a whole number from 0 on"),
        ({"WORLD_SIZE": "9" * 30}, "WORLD_SIZE must be a whole number from 1 on"),
        ({"WORLD_SIZE": "2", "RANK": "1"}, "WORLD_SIZE is 2, but MASTER_ADDR, MASTER_PORT is not set"),
    ],
)
def test_an_environment_that_no_launcher_sets_is_one_line(
    environment: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    shown = call("recipes", "--nonsense")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert message in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


COMMANDS = ["measure vit_tiny_patch16_224", "design vit_tiny_patch16_224", "theory --model none", "compare", "sweep"]


@pytest.mark.parametrize(
    "command", [*COMMANDS, "train", f"report {Path(__file__).parents[1]}/fixtures/v0.1/comparison"]
)
def test_a_folder_that_cannot_be_written_to_is_found_before_the_work(command: str) -> None:
    shown = call(*command.split(), "--out", "/proc/nothing")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "/proc/nothing cannot be written to" in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


def test_what_cannot_be_written_at_the_end_is_printed_and_kept_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may fill up while a command works."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    replace = os.replace

    def refuse(source: Path, target: Path) -> None:
        if "out" in Path(target).parts:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    record = Path(__file__).parents[2] / "results" / "sweep-farthest-deep" / "sweep.json"
    shown = call("report", str(record), "--out", str(tmp_path / "out"), "--json")
    assert shown.returncode == 74
    assert json.loads(shown.stdout)["kind"] == "sweep"
    assert "sweep.json could not be written: No space left on device; the record is in " in shown.stderr
    assert len(shown.stderr.splitlines()) == 1
    assert (tmp_path / "here" / "out-sweep.json").is_file()


@pytest.mark.parametrize("name", ["[/]", "[red]x", "a\nb", "\x1b[31mred", ":smile:", "\udcff"])
def test_names_are_shown_as_they_are_in_one_line(name: str) -> None:
    for command in ("measure", "design", "report", "recipes", "models"):
        shown = call(command, name)
        assert shown.returncode == 2
        assert len(shown.stderr.splitlines()) == 1, shown.stderr
        assert "\x1b[31m" not in shown.stderr
        if name.isprintable():
            assert name in shown.stderr
