"""Runs on a Ray cluster: one Ray task for each, anywhere in the cluster, tried again elsewhere if its node dies.

Ray places tasks and notices what dies. What is trained and where it resumes is in the run's folder, which all hosts see
or which lives at a URL. Events reach this process through an actor; if that is lost, only the display suffers, since
how a run ended is what its task returns.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leanformer.foundation.formats import counted, size
from leanformer.foundation.leases import Held
from leanformer.foundation.machine import cores
from leanformer.foundation.registry import CODE_VARIABLE
from leanformer.foundation.stopping import Stopped, stop_requests
from leanformer.foundation.storage import Mirror, mirror_of
from leanformer.runners.base import Event, Listener, note_failure
from leanformer.runners.processes import ERRORS, PATIENCE
from leanformer.runners.where import RAY, Needs, Where, needs_of

CARRIED = ("LEANFORMER_DATA", "LEANFORMER_CACHE", "LEANFORMER_LEASE", CODE_VARIABLE, "PYTHONPATH", "HF_HUB_OFFLINE")
"""Environment variables that workers get as this process has them."""
LOOK_SECONDS = 0.1
POST_SECONDS = 0.25
"""Between two reports of a run's progress."""
STOP_SECONDS = 0.5
"""Between two looks of a run at whether it is to stop."""
ANSWER_SECONDS = 30.0
"""How long a run waits for the answer that it may begin."""
AUTHENTICATION_HINT = "; if it asks for a token, set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"
"""Ray's client sends a token only if RAY_AUTH_MODE says so, and otherwise reports a timeout."""
CLIENT_ATTEMPTS, CLIENT_PAUSE = 3, 2.0
"""How often Ray's client tries to connect, and the seconds between two attempts."""
SERVER_FAILED = "Initialization failure from server"
"""What Ray's client says if it reached the head node, which could not start a process for it."""
WAITING_SECONDS = 30.0
"""After so long without any run that runs, it is said what the cluster lacks."""


@dataclass(frozen=True)
class OnRay:
    """A cluster that is connected to for the time of the runs."""

    where: Where
    threads: int = 1
    log_with: str = ""

    def run(self, folders: Sequence[Path], listen: Listener) -> None:
        if not folders:
            return
        with connected(self.where.on) as ray:
            _Cluster(ray, self, listen).run(list(folders))


@contextlib.contextmanager
def connected(on: str) -> Iterator[Any]:
    """Ray, connected to the cluster that was asked for. One that this process was connected to already stays so."""
    import ray

    if ray.is_initialized():
        yield ray
        return
    with _handlers_kept():
        _connect(ray, on)
        try:
            yield ray
        finally:
            ray.shutdown()


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    """Ray sets a handler of SIGTERM, and leaves it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


def _connect(ray: Any, on: str) -> None:
    variables = {name: os.environ[name] for name in CARRIED if os.environ.get(name)}
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    options: dict[str, Any] = {"runtime_env": {"env_vars": variables}, "logging_level": logging.ERROR}
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        if on == RAY:
            _connect_or_start(ray, {**options, "log_to_driver": False})
        else:
            _check_address(on.removeprefix("ray://"))
            _connect_client(ray, on, options)
    except (ConnectionError, TimeoutError, RuntimeError, OSError) as error:
        reason = " ".join((str(error).strip().splitlines() or [type(error).__name__])[-1].split())[:200]
        hint = "" if on == RAY or os.environ.get("RAY_AUTH_MODE") else AUTHENTICATION_HINT
        raise ValueError(
            f"there is no Ray cluster at {on} that this process could connect to: {reason}{hint}"
        ) from error


def _connect_client(ray: Any, on: str, options: dict[str, Any]) -> None:
    """Through Ray's client. A head node that is busy or has just started may fail at it and be ready a moment later."""
    for left in reversed(range(CLIENT_ATTEMPTS)):
        try:
            ray.init(address=on, **options)
        except ConnectionError as error:
            if not left or SERVER_FAILED not in str(error):
                raise
            time.sleep(CLIENT_PAUSE)
        else:
            return


def _check_address(address: str) -> None:
    """Where nobody answers at an address, Ray itself would wait for up to a minute and may then end this process."""
    host, _, port = address.rpartition(":")
    if host and "/" not in host and port.isdecimal():
        with socket.create_connection((host, int(port)), timeout=10):
            pass


def _connect_or_start(ray: Any, options: dict[str, Any]) -> None:
    """The cluster that runs on this machine or that RAY_ADDRESS names, or else a new one of this machine's cores."""
    named = os.environ.get("RAY_ADDRESS", "")
    _check_address(named)
    if named or not _is_gone(_last_cluster()):
        try:
            ray.init(address="auto", **options)
        except ConnectionError:
            if named:
                raise
        else:
            return
    os.environ.setdefault("RAY_worker_niceness", "0")  # runs are what this machine is for
    ray.init(address="local", num_cpus=cores(), include_dashboard=False, **options)


def _last_cluster() -> str:
    """The address of the last cluster that was started on this machine, as Ray keeps it."""
    from ray._private.services import find_bootstrap_address

    return find_bootstrap_address(None) or ""


def _is_gone(address: str) -> bool:
    """Whether nobody answers. Ray keeps the address of a cluster that was killed, and would wait for it for minutes."""
    try:
        _check_address(address)
    except OSError:
        return True
    return False


# One run, on whichever node


def train_here(
    folder: str, url: str, place: str, cwd: str, log_with: str, versions: dict[str, str], post: Any
) -> Event:
    """Train a run in this Ray worker; returns how it ended. Errors that a person can mend are returned in words."""
    from leanformer.runners.base import execute

    with contextlib.suppress(OSError):
        os.chdir(cwd)
    path = Mirror.of(url).part(place).folder if url else Path(folder)
    node = socket.gethostname()
    if wrong := other_versions(versions):
        return {"event": "stopped", "kind": "ValueError", "text": f"the node {node} {wrong}"}
    ending: list[Event] = []
    posted = _Post(post, folder, f"{node} {os.getpid()}")
    if posted.is_too_late():
        return {"event": "broken", "text": "it was not begun"}
    try:
        if url:
            Mirror.of(url).part(place).fetch()
        elif not (path / "run.json").is_file():
            raise ValueError(
                f"the node {node} does not see {path}: choose a folder that all nodes see, or a URL such as "
                "s3://bucket/study"
            )
        with _stopped_with(post):
            execute(path, lambda event: posted(event, ending), log_with)
    except ValueError as error:
        if isinstance(error, Held):  # by a process that Ray takes for dead, and that may be
            return {"event": "broken", "text": str(error)}
        return {"event": "stopped", "kind": "ValueError", "text": str(error)}
    except (Stopped, OSError) as error:  # a node that is taken away asks its processes to stop
        return {"event": "broken", "text": " ".join(str(error).split())}
    return ending[-1]


def other_versions(wanted: dict[str, str]) -> str:
    found = versions_here()
    different = [
        f"{name} {found[name]} instead of {version}" for name, version in wanted.items() if found[name] != version
    ]
    return f"has {', '.join(different)}: install the same version on all nodes" if different else ""


def versions_here() -> dict[str, str]:
    """What must be the same everywhere, so that results are."""
    from importlib.metadata import version

    from leanformer import __version__

    return {"leanformer": __version__, "torch": version("torch").partition("+")[0]}


@contextlib.contextmanager
def _stopped_with(actor: Any) -> Iterator[None]:
    """Inside, this process gets SIGTERM once all are to stop, as from a launcher: a checkpoint, then `Stopped`."""
    over = threading.Event()
    listener = threading.Thread(target=_listen, args=(actor, over), daemon=True)
    with stop_requests():  # where training itself is not ready for a signal, it does no harm and is sent again
        listener.start()
        try:
            yield
        finally:
            over.set()
            listener.join()


def _listen(actor: Any, over: threading.Event) -> None:
    import ray

    while actor is not None and not over.wait(STOP_SECONDS):
        try:
            stopping = actor.is_stopping.remote().future().result(STOP_SECONDS)
        except (ray.exceptions.RayError, TimeoutError):
            continue
        if stopping and not over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)


@dataclass
class _Post:
    """Sends a run's events to the process that asked for it; training never waits.

    Answers are futures: while a task waits by `ray.get` or `ray.wait`, Ray gives its CPU to another one.
    """

    actor: Any
    folder: str
    here: str
    _sent: float = 0.0

    def is_too_late(self) -> bool:
        """Announce that the run begins here; whether it is not to begin any more."""
        import ray

        try:
            return self.actor is not None and bool(self.actor.begin.remote(self.folder).future().result(ANSWER_SECONDS))
        except (ray.exceptions.RayError, TimeoutError):
            return False

    def __call__(self, event: Event, ending: list[Event]) -> None:
        import ray

        if event["event"] in ("done", "diverged"):
            ending.append(event)
            return
        if event["event"] == "progress" and time.monotonic() - self._sent < POST_SECONDS:
            return
        self._sent = time.monotonic()
        with contextlib.suppress(ray.exceptions.RayError):  # the display may be gone; the run is not
            self.actor.put.remote(self.folder, {**event, "where": self.here})


class Events:
    """The actor that collects events until they are asked for."""

    def __init__(self) -> None:
        self.found: list[tuple[str, Event]] = []
        self.begun: set[str] = set()
        self.stopping = False

    def begin(self, folder: str) -> bool:
        """Whether it is too late for it."""
        if not self.stopping:
            self.begun.add(folder)
        return self.stopping

    def put(self, folder: str, event: Event) -> None:
        self.begun.add(folder)  # again, where Ray has started this actor anew
        self.found.append((folder, event))

    def take(self) -> list[tuple[str, Event]]:
        found, self.found = self.found, []
        return found

    def stop(self) -> set[str]:
        """Have runs stop, and no others begin; those that have begun."""
        self.stopping = True
        return self.begun

    def is_stopping(self) -> bool:
        return self.stopping


# All runs, from here


@dataclass
class _Run:
    folder: Path
    needs: Needs
    tried: int = 0
    failed_on: list[str] = field(default_factory=list)
    """Nodes on which it ended unexpectedly."""


class _Cluster:
    """Submits runs, listens, and tries again."""

    def __init__(self, ray: Any, runner: OnRay, listen: Listener) -> None:
        self.ray, self.where, self.runner, self.listen = ray, runner.where, runner, listen
        self.events = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Events).remote()
        self.pending: dict[Any, tuple[_Run, Any]] = {}
        self.versions = versions_here()
        has_gpus = ray.cluster_resources().get("GPU", 0) > 0
        self.needs: Callable[[Path], Needs] = lambda folder: needs_of(folder, self.where, has_gpus)
        self.quiet_since, self.said_waiting = time.monotonic(), False

    def run(self, folders: list[Path]) -> None:
        waiting = [_Run(folder, self.needs(folder)) for folder in reversed(folders)]
        check_room(self.ray, [one.needs for one in waiting])
        most = self.where.jobs or len(folders)
        try:
            with stop_requests() as stop:
                while waiting or self.pending:
                    if stop.signal_name:
                        raise Stopped(f"stopped by {stop.signal_name}; repeat the command to resume")
                    while waiting and len(self.pending) < most:
                        self._submit(waiting.pop())
                    ready, _ = self.ray.wait(list(self.pending), num_returns=1, timeout=LOOK_SECONDS)
                    self._hear()
                    for reference in ready:
                        if (again := self._ended(reference)) is not None:
                            waiting.insert(0, again)
        finally:
            self._end()

    def _submit(self, one: _Run) -> None:
        mirror = mirror_of(one.folder)
        options: dict[str, Any] = {
            "num_cpus": one.needs.cpus,
            "num_gpus": one.needs.gpus,
            "memory": one.needs.memory,
            "max_retries": 0,
            "name": str(one.folder),
        }
        others = [n for n in self.ray.nodes() if n["Alive"] and n["NodeID"] not in one.failed_on]
        if one.failed_on and any(_fits(node, one.needs) for node in others):
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(dict.fromkeys(one.failed_on))})"}
        where = (mirror.url, mirror.place) if mirror else ("", "")
        reference = self.ray.remote(train_here).options(**options).remote(
            str(one.folder.absolute()), *where, str(Path.cwd()), self.runner.log_with, self.versions, self.events
        )  # fmt: skip
        self.pending[reference] = (one, options)

    def _hear(self) -> None:
        """Pass on what the runs have reported. Folders are named by their absolute paths on this host."""
        try:
            found = self.ray.get(self.events.take.remote(), timeout=30)
        except self.ray.exceptions.RayError:  # its node died; Ray starts it again
            return
        known = {str(one.folder.absolute()): one.folder for one, _ in self.pending.values()}
        for folder, event in found:
            if folder in known:
                self.listen(known[folder], event)
        if found or not self.pending:
            self.quiet_since, self.said_waiting = time.monotonic(), False
        elif time.monotonic() - self.quiet_since > WAITING_SECONDS and not self.said_waiting:
            self.said_waiting = True
            one = next(iter(self.pending.values()))[0]
            free = self.ray.available_resources()
            text = f"no run has reported for {WAITING_SECONDS:.0f} s; free in the cluster: {_in_words(free)}"
            self.listen(one.folder, {"event": "said", "text": text})

    def _ended(self, reference: Any) -> _Run | None:
        """What a task came to: the run, if it is to be tried again."""
        one, _ = self.pending.pop(reference)
        failures = self.ray.exceptions
        try:
            ending: Event = self.ray.get(reference)
        except failures.RayTaskError as error:  # it raised something else than a person can mend
            if isinstance(error.cause, ImportError):
                raise ValueError(
                    f"a node cannot import leanformer ({error.cause}): install leanformer "
                    f"{self.versions['leanformer']} on all nodes"
                ) from error
            return self._again(one, f"{type(error.cause).__name__}: {error.cause}", "")
        except failures.RayError as error:  # a worker or a node died, or ran out of memory
            return self._again(one, how_it_ended(error), self._node_of(reference))
        if ending["event"] == "stopped":
            raise ERRORS[ending["kind"]](ending["text"])
        if ending["event"] == "broken":
            return self._again(one, ending["text"], self._node_of(reference))
        if mirror := mirror_of(one.folder):
            mirror.fetch()
        self.listen(one.folder, ending)
        return None

    def _again(self, one: _Run, how: str, node: str) -> _Run | None:
        """The run for another attempt; after the last one, it is written down why it failed."""
        one.tried += 1
        one.failed_on += [node] if node else []
        if one.tried <= self.where.retries:
            text = f"{one.folder}: it ended unexpectedly ({how}); it is tried again from its last checkpoint"
            self.listen(one.folder, {"event": "said", "text": text})
            return one
        text = f"it ended unexpectedly ({how}) in {counted(one.tried, 'attempt')}"
        note_failure(one.folder, text, crashed=True)
        self.listen(one.folder, {"event": "crashed", "text": text})
        return None

    def _node_of(self, reference: Any) -> str:
        """The node that a task ran on, as far as Ray knows it."""
        with contextlib.suppress(Exception):  # an interface for people, which may change
            from ray.util.state import get_task

            task = get_task(reference.task_id().hex())
            found = task[-1] if isinstance(task, list) else task
            return str(found.node_id or "") if found is not None else ""
        return ""

    def _end(self) -> None:
        """Let runs write a checkpoint and end; those that take too long are cancelled."""
        if not self.pending:
            return
        left = list(self.pending)
        with contextlib.suppress(self.ray.exceptions.RayError):
            begun = self.ray.get(self.events.stop.remote(), timeout=10)
            for reference in left:  # what has begun would be interrupted without a checkpoint
                if str(self.pending[reference][0].folder.absolute()) not in begun:
                    self.ray.cancel(reference)
        _, left = self.ray.wait(left, num_returns=len(left), timeout=PATIENCE)
        for reference in left:
            with contextlib.suppress(self.ray.exceptions.RayError, ValueError):
                self.ray.cancel(reference, force=True)
        self.pending.clear()


def check_room(ray: Any, needs: Sequence[Needs]) -> None:
    """A run that no node has room for would wait forever."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for one in needs:
        wanted = {"CPU": one.cpus, "GPU": one.gpus, "memory": one.memory}
        if not any(all(node.get(name, 0) >= value for name, value in wanted.items()) for node in nodes):
            largest = {name: max((node.get(name, 0) for node in nodes), default=0) for name in wanted}
            raise ValueError(
                f"no node has room for a run, which takes {_in_words(wanted)}: the largest nodes have "
                f"{_in_words(largest)}; give cpus, gpus or memory if it takes less"
            )


def _fits(node: dict[str, Any], needs: Needs) -> bool:
    room = node["Resources"]
    return bool(room.get("CPU", 0) >= needs.cpus and room.get("GPU", 0) >= needs.gpus)


def _in_words(resources: dict[str, float]) -> str:
    cpus, gpus, memory = (resources.get(name, 0) for name in ("CPU", "GPU", "memory"))
    return f"{cpus:g} CPUs, {gpus:g} GPUs and {size(int(memory))} of memory"


def how_it_ended(error: BaseException) -> str:
    """The first sentence of what Ray says, which is paragraphs long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
