"""One training run, from its settings to a saved model: the loop, read from top to bottom.

A run lives in a folder that describes itself (run.json), so `train` can begin it, resume it after any kind of stop, and
find it finished. Batches are a function of seed and step, and checkpoints hold the generators' states: a run that was
killed and resumed ends bit-identical to one that was not. Under torchrun the same loop runs on every process.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from leanformer.data.order import Share
from leanformer.foundation.leases import Lease
from leanformer.foundation.records.files import locked
from leanformer.foundation.stopping import Stopped, StopRequest, stop_requests
from leanformer.tasks.base import Data
from leanformer.training.evaluation import Evaluator
from leanformer.training.monitoring import Clock
from leanformer.training.randomness import process_state_kept
from leanformer.training.result import Result, read_result
from leanformer.training.run import Run, read_run
from leanformer.training.state import Say, State
from leanformer.training.step import MIXED_PRECISION, Stepper

TRACKERS = ("tensorboard", "trackio", "wandb")
Progress = Callable[[int, float], None]
"""Receives how many steps are done, and the loss."""


def train(
    folder: str | Path,
    data: Data | None = None,
    *,
    say: Say = lambda message: None,
    progress: Progress = lambda step, loss: None,
    log_with: str = "",
    saved: Callable[[], None] = lambda: None,
) -> Result:
    """Begin or resume the run that a folder describes; returns its result, which result.json keeps.

    The process is left as it was: its random generators and its number of CPU threads. SIGTERM and SIGUSR1 make it
    write a checkpoint and raise `Stopped`.

    Args:
        folder: a folder that `write_run` described. Checkpoints, records and the trained model are written to it.
        data: the run's data, if they are loaded already.
        say: receives messages for a person, such as where a run resumes.
        progress: receives, every few steps, how many are done and the loss.
        log_with: tensorboard, trackio or wandb.
        saved: called after every checkpoint.
    """
    folder = Path(folder)
    run = read_run(folder)
    try:
        finished = read_result(folder)
    except ValueError as error:
        finished = None
        say(f"{error}")
    if finished is not None:
        return finished
    with process_state_kept():
        torch.set_num_threads(run.training.threads)
        accelerator = _accelerator(run, folder, log_with)
        with locked(folder) if accelerator.is_main_process else contextlib.nullcontext() as lease:
            try:
                with stop_requests() as stop:
                    keeping = _Keeping(lease, saved)
                    return _train(run, folder, data or run.task.load(), accelerator, say, progress, stop, keeping)
            finally:
                for tracker in accelerator.trackers:  # not end_training, which would part the processes for good
                    tracker.finish()


@dataclass(frozen=True)
class _Keeping:
    """What surrounds the writing of a checkpoint, on the process that writes it."""

    lease: Lease | None
    saved: Callable[[], None]

    @contextlib.contextmanager
    def checkpoint(self) -> Iterator[None]:
        """A process that has lost the folder to another one writes nothing there."""
        if self.lease is not None:
            self.lease.look()
        yield
        if self.lease is not None:
            self.saved()


def _train(
    run: Run,
    folder: Path,
    data: Data,
    accelerator: Accelerator,
    say: Say,
    progress: Progress,
    stop: StopRequest,
    keeping: _Keeping,
) -> Result:
    settings, share = run.training, Share(accelerator.process_index, accelerator.num_processes)
    if settings.batch % (share.count * settings.accumulate):
        raise ValueError(
            f"a batch of {settings.batch} does not divide into {share.count} processes × {settings.accumulate} pieces"
        )
    order = settings.order(run.seed, data.size)
    state = State.begin(run, folder, accelerator, order, data)
    state.restore(say)
    stepper = Stepper(data, settings, accelerator, state.wrapped, state.optimizer, run.start_in(folder))
    evaluator = Evaluator(state.judged, data, share, accelerator, settings.probe)
    clock = Clock(folder, accelerator)
    if not state.evaluations:
        state.evaluations.append(evaluator.evaluate(state.step))
    state.wrapped.train()
    for batch in data.batches(order, range(state.step, settings.steps), share):
        clock.start()
        state.losses.add(stepper.take(batch, state.step, order.pieces_at(state.step)))
        if state.average is not None:
            state.average.update_parameters(state.model)
        state.step += 1
        clock.steps += 1
        stopping = _is_stopping(stop, accelerator, state)
        if state.losses.is_full():
            mean = state.losses.log(state.step)  # waits for the device, so that the clock sees whole steps
            clock.pause(state.step)
            progress(state.step, mean)
        if settings.is_evaluated(state.step) or settings.is_saved(state.step) or stopping:
            state.losses.check(state.step)
            state.losses.check_weights(stepper.parameters, state.step)
            clock.pause(state.step)
        if settings.is_evaluated(state.step):
            state.evaluations.append(evaluator.evaluate(state.step))
        if settings.is_saved(state.step) or stopping:
            with keeping.checkpoint():
                state.save()
        if stopping and state.step < settings.steps:
            raise Stopped(
                f"{run.name}, seed {run.seed}: stopped by {stop.signal_name or 'another process'} after step "
                f"{state.step} of {settings.steps}, with a checkpoint; repeat the command to resume"
            )
    return state.finish(evaluator.final_scores(state.evaluations[-1].scores), evaluator.outcomes)


def _is_stopping(stop: StopRequest, accelerator: Accelerator, state: State) -> bool:
    """Whether to stop after this step. Several processes agree on it where they look at the loss together."""
    if accelerator.num_processes == 1:
        return bool(stop.signal_name)
    if not state.losses.is_full():
        return False
    asked = torch.tensor(float(bool(stop.signal_name)), device=accelerator.device)
    return bool(cast(torch.Tensor, accelerator.reduce(asked, "sum")).item())


def check_tracker(log_with: str) -> None:
    if log_with and log_with not in TRACKERS:
        raise ValueError(f"log_with must be one of {', '.join(TRACKERS)}, got {log_with!r}")
    if log_with and importlib.util.find_spec(log_with) is None:
        raise ValueError(f"log_with={log_with!r} needs the package of that name: pip install {log_with}")


def _accelerator(run: Run, folder: Path, log_with: str) -> Accelerator:
    check_tracker(log_with)
    AcceleratorState._reset_state()  # precision belongs to a run; the processes stay connected
    accelerator = Accelerator(
        cpu=not torch.accelerator.is_available(),  # said, or else processes without a GPU would not find each other
        mixed_precision=MIXED_PRECISION[run.training.precision],
        log_with=log_with or None,
        project_dir=folder,
    )
    if log_with:
        settings = {key: value for key, value in run.training.to_dict().items() if isinstance(value, (int, float, str))}
        name = f"{run.name}-seed-{run.seed}"
        accelerator.init_trackers(
            "leanformer",
            config={"run": run.name, "seed": run.seed, **settings},
            init_kwargs={"wandb": {"name": name}, "trackio": {"name": name}},
        )
    return accelerator
