"""Downloads: network failures become one line, defects stay as they are, and nothing outlives its use."""

import time
from pathlib import Path
from typing import Any

import datasets
import pytest
from datasets.exceptions import DatasetGenerationError, DatasetNotFoundError
from huggingface_hub import constants, errors

from leanformer.data import corpora, hub, tokenizers


def fails(error: Exception, cause: Exception | None = None) -> Any:
    def load(*arguments: Any, **options: Any) -> Any:
        raise error from cause

    return load


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_unreachable", lambda: "")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ConnectionError("it failed\nin two lines"), None),
        (TimeoutError("it failed"), None),
        (DatasetNotFoundError("it failed"), None),
        (errors.OfflineModeIsEnabled("it failed"), None),
        (errors.LocalEntryNotFoundError("it failed"), None),
        (errors.HTTPError("it failed"), None),
        (DatasetGenerationError("it failed"), ConnectionError("the connection was lost")),
    ],
)
@pytest.mark.usefixtures("reachable")
def test_failures_of_the_network_say_what_is_needed(error: Exception, cause: Exception | None) -> None:
    with pytest.raises(hub.NotAvailable) as raised:
        hub.download(fails(error, cause), "cifar10", "uoft-cs/cifar10", "the folder cifar10")
    assert str(raised.value) == (
        "cifar10 is not on this machine, and uoft-cs/cifar10 could not be downloaded from the hub: it failed. "
        "Needed is the folder cifar10, or a network"
    )


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (TypeError("load_dataset() got an unexpected keyword argument"), None),
        (KeyError("train"), None),
        (OSError(28, "No space left on device"), None),
        (DatasetGenerationError("it failed"), TypeError("a defect")),
    ],
)
@pytest.mark.usefixtures("reachable")
def test_defects_are_raised_as_they_are(error: Exception, cause: Exception | None) -> None:
    with pytest.raises(type(error)) as raised:
        hub.download(fails(error, cause), "cifar10", "uoft-cs/cifar10", "the folder cifar10")
    assert raised.value is error


def test_without_a_network_there_is_one_quick_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.delenv("LEANFORMER_DATA", raising=False)
    for look_up, what in (
        (lambda: corpora.find("tinystories"), "roneneldan/TinyStories"),
        (lambda: tokenizers.tokenizer("gpt2", corpora.find("pydoc")), "openai-community/gpt2"),
    ):
        start = time.monotonic()
        with pytest.raises(hub.NotAvailable, match=f"{what} could not be downloaded .*127.0.0.1:9 cannot be reached"):
            look_up()
        assert time.monotonic() - start < 10, "the libraries' own retries take 24 seconds"
    assert "Retrying" not in "".join(capfd.readouterr())
    assert constants.HF_HUB_OFFLINE is datasets.config.HF_HUB_OFFLINE is False


@pytest.mark.parametrize("disabled", [False, True])
def test_progress_bars_are_put_back(disabled: bool) -> None:
    try:
        if disabled:
            datasets.disable_progress_bars()
        with hub.without_progress_bars():
            assert datasets.are_progress_bars_disabled()
        assert datasets.are_progress_bars_disabled() is disabled
    finally:
        datasets.enable_progress_bars()
