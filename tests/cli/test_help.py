"""What the help shows, what the shell completes, and how long both take."""

import os
import re
import subprocess
import sys

import pytest
import typer
from typer.core import TyperOption

from leanformer.cli.shared import app
from leanformer.experiments import recipes
from leanformer.models import catalogue, families
from leanformer.models.published import LEAN_MODELS
from support.command import COMMAND, call

COMMANDS = typer.main.get_command(app).commands
HEAVY = ("torch", "timm", "transformers", "numpy")


@pytest.mark.parametrize("name", COMMANDS)
def test_flags_are_shown_as_flags(name: str) -> None:
    shown = call(name, "--help").stdout
    assert "<bool>" not in shown
    options = [line for line in shown.splitlines() if line.startswith("│ --")]
    assert not [line for line in options if re.search(r"<\w+( range)?>|list\[", line)]
    for param in COMMANDS[name].params:
        if isinstance(param, TyperOption) and param.secondary_opts:
            assert param.default is None, f"{param.opts[0]}: a flag that is on or off needs no second name"


@pytest.mark.parametrize("name", ["compare", "sweep"])
def test_options_are_grouped(name: str) -> None:
    shown = call(name, "--help").stdout
    places = [
        shown.index(f"─ {panel} ─") for panel in ("Data", "Models", "Training", "Statistics", "Machine", "Output")
    ]
    assert places == sorted(places)
    assert "─ Options ─" not in shown


def completed(*words: str) -> list[str]:
    """What bash would offer for the last word."""
    environment = {
        **os.environ,
        "_LEANFORMER_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("leanformer", *words)),
        "COMP_CWORD": str(len(words)),
    }
    command = [sys.executable, "-X", "importtime", str(COMMAND)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    imported = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert not imported & set(HEAVY)
    return ran.stdout.splitlines()


def test_the_shell_completes_names_without_importing_pytorch() -> None:
    assert completed("compare", "fash") == ["fashion-mnist"]
    assert completed("compare", "digits", "--arms", "original,l") == ["original,lean"]
    assert completed("design", "gpt2-") == ["gpt2-medium", "gpt2-large", "gpt2-xl"]
    assert "vit_base_patch16_224" in completed("measure", "vit_base_patch16")


def test_the_shell_completes_options() -> None:
    assert completed("compare", "--ar") == ["--arms", "--arm"]


def test_completion_can_be_installed() -> None:
    shown = call("--help").stdout
    assert "--install-completion" in shown
    assert "--show-completion" in shown


def test_the_quick_list_of_models_is_what_the_families_say() -> None:
    quick = catalogue.listed_names()
    assert quick == {**families.known_names(), "lean": list(LEAN_MODELS)}
    assert len(quick["vit"]) > 100


def test_timm_that_is_packed_otherwise_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = catalogue.timm_names("volo")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert catalogue.timm_names.__wrapped__("volo") == expected


@pytest.mark.parametrize("arguments", [["models"], ["recipes"], ["models", "gpt2"], ["compare", "--help"]])
def test_lists_and_help_import_nothing_heavy_and_are_quick(arguments: list[str]) -> None:
    command = [sys.executable, "-X", "importtime", str(COMMAND), *arguments]
    spent = os.times().children_user + os.times().children_system
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds = os.times().children_user + os.times().children_system - spent
    imported = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert not imported & set(HEAVY)
    assert ran.stdout
    assert seconds < 2, "half a second, and what a busy machine adds"


def test_recipes_are_named_in_the_order_of_the_registry() -> None:
    assert [line.split()[0] for line in call("recipes").stdout.splitlines() if line[:1].strip()][:2] == recipes.names()[
        :2
    ]
