"""Downloads from the Hugging Face hub: one quick attempt, and errors that say what is needed.

Only failures of the network and of the hub are turned into `NotAvailable`. Any other exception is a defect, and is
raised as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

Loaded = TypeVar("Loaded")

REACHED_WITHIN = 5.0
"""Seconds in which the hub has to answer the first request."""


class NotAvailable(ValueError):  # noqa: N818
    """Data that are not on this machine and cannot be downloaded."""


def download(load: Callable[[], Loaded], what: str, repository: str, needed: str) -> Loaded:
    """What `load` downloads, or takes from the hub's local cache.

    Args:
        load: calls the library that downloads.
        what: the name of the data, for the message.
        repository: its name on the hub.
        needed: what would do in place of a network.
    """
    with _quickly() as unreachable:
        try:
            return load()
        except Exception as error:
            if not _is_failure(error):
                raise
            reason = unreachable or (str(error).splitlines() or [type(error).__name__])[0]
            raise NotAvailable(
                f"{what} is not on this machine, and {repository} could not be downloaded from the hub: {reason}. "
                f"Needed is {needed}, or a network"
            ) from error


def load_dataset(repository: str, *arguments: str, what: str, needed: str, **options: Any) -> Any:
    """`datasets.load_dataset` through `download`."""
    import datasets

    return download(lambda: datasets.load_dataset(repository, *arguments, **options), what, repository, needed)


def columns_of(loaded: Any, split: str, columns: Sequence[str], repository: str) -> dict[str, list[Any]]:
    """Columns of a split of a downloaded data set. A split or a column that it lacks is an error."""
    if split not in loaded:
        raise ValueError(f"{repository} from the hub has no split named {split}, only {', '.join(loaded)}")
    if missing := [column for column in columns if column not in loaded[split].column_names]:
        found = ", ".join(loaded[split].column_names)
        raise ValueError(
            f"{repository} from the hub, {split}: it lacks the column {', '.join(missing)}; it has {found}"
        )
    return {column: list(loaded[split][column]) for column in columns}


def _is_failure(error: BaseException | None) -> bool:
    """Whether an exception says that the network or the hub failed, or that the hub lacks the data."""
    from datasets.exceptions import DataFilesNotFoundError, DatasetGenerationError, DatasetNotFoundError
    from huggingface_hub.errors import EntryNotFoundError, HFValidationError

    if isinstance(error, DatasetGenerationError):  # wraps whatever happened while files were downloaded and read
        return _is_failure(error.__cause__)
    network = (ConnectionError, TimeoutError, _http_error())
    absent = (DatasetNotFoundError, DataFilesNotFoundError, EntryNotFoundError, HFValidationError)
    return isinstance(error, (*network, *absent))


def _http_error() -> type[Exception]:
    """The base of all errors of the library that speaks HTTP. Which library it is, depends on the hub's version."""
    from huggingface_hub import errors

    return errors.HTTPError  # type: ignore[attr-defined]


@contextmanager
def _quickly() -> Iterator[str]:
    """The libraries retry for half a minute; if the hub does not answer, they look into their caches only.

    Yields why the hub cannot be reached, or an empty text.
    """
    import datasets.config
    from huggingface_hub import constants

    reason = "" if constants.HF_HUB_OFFLINE else _unreachable()
    before = constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE
    if reason:
        constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    try:
        yield reason
    finally:
        constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE = before


def _unreachable() -> str:
    """Why the hub does not answer; an empty text if it does, whatever it answers."""
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=REACHED_WITHIN)
    except _http_error() as error:
        return f"{constants.ENDPOINT} cannot be reached ({str(error) or type(error).__name__})"
    return ""


@contextmanager
def without_messages() -> Iterator[None]:
    """`datasets` writes no messages inside: what it raises says the same."""
    logger = logging.getLogger("datasets")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """No progress bars of `datasets` inside; afterwards they are as before."""
    from datasets.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    disabled = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not disabled:
            enable_progress_bars()
