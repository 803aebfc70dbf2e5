"""Tracking for the Hugging Face Trainer and for Lightning; each library is imported by its own function."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accelerate.utils import send_to_device

from leanformer.conditioning.tracking import Tracker
from leanformer.conditioning.watching import Rule


def trainer_callback(
    batch: Any, every: int = 100, path: str | Path | None = None, projections: Rule | None = None
) -> Any:
    """A callback for `transformers.Trainer`: κ by layer before training, every `every` steps, and after each epoch.

    >>> Trainer(model, args, train_dataset=data, callbacks=[lf.trainer_callback(batch, every=100)])

    κ is in the Trainer's own log, `trainer.state.log_history`, as `kappa/median_over_layers`, `kappa/mean_over_layers`
    and `kappa/LAYER`, the median of each layer. The next line that the Trainer prints shows it too, and so do trackers
    whose callbacks come later in the list. The whole records are in `callback.tracker.records`.
    """
    from transformers import TrainerCallback

    class KappaCallback(TrainerCallback):
        tracker: Tracker

        def __init__(self) -> None:
            self._unprinted: dict[str, float] = {}

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            self.tracker = Tracker(model, _beside(model, batch), every, path, projections)
            self.tracker.step = state.global_step
            self._log(state, self.tracker.record(epoch=state.epoch or 0.0))

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.tracker.step = state.global_step
            if state.global_step % every == 0:
                self._log(state, self.tracker.try_record(epoch=state.epoch))

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % every:
                self._log(state, self.tracker.try_record(epoch=state.epoch))

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if logs is not None:  # what comes later in the list of callbacks prints or uploads it
                logs.update(self._unprinted)
                self._unprinted = {}

        def _log(self, state: Any, record: Mapping[str, Any] | None) -> None:
            if values := logged(record):
                self._unprinted = values
                state.log_history.append({**values, "epoch": state.epoch or 0.0, "step": state.global_step})

    return KappaCallback()


def lightning_callback(
    batch: Any, every: int = 100, path: str | Path | None = None, projections: Rule | None = None
) -> Any:
    """A callback for Lightning's Trainer: κ by layer before training, every `every` steps, and after each epoch.

    >>> Trainer(callbacks=[lf.lightning_callback(batch, every=100)])

    κ is in `trainer.callback_metrics`, and each measured step in every logger, as `kappa/median_over_layers`,
    `kappa/mean_over_layers` and `kappa/LAYER`, the median of each layer. The whole records are in
    `callback.tracker.records`.
    """
    from lightning.pytorch import Callback

    class KappaCallback(Callback):
        tracker: Tracker

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.tracker = Tracker(pl_module, _beside(pl_module, batch), every, path, projections)
            self.tracker.step = trainer.global_step
            self._log(trainer, self.tracker.record(epoch=trainer.current_epoch), on_epoch=True)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
            seen, self.tracker.step = self.tracker.step, trainer.global_step
            if trainer.global_step != seen and trainer.global_step % every == 0:  # once per step, not per batch
                self._log(trainer, self.tracker.try_record(epoch=trainer.current_epoch), on_epoch=False)

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            if trainer.global_step % every:
                self._log(trainer, self.tracker.try_record(epoch=trainer.current_epoch + 1), on_epoch=True)

        def _log(self, trainer: Any, record: Mapping[str, Any] | None, on_epoch: bool) -> None:
            """Lightning passes values to its loggers at some steps only, so these get them directly."""
            values = logged(record)
            for name, value in values.items():
                self.log(name, value, on_step=not on_epoch, on_epoch=on_epoch, logger=False, rank_zero_only=True)
            for logger in trainer.loggers if values else ():
                logger.log_metrics(values, step=trainer.global_step)

    return KappaCallback()


def logged(record: Mapping[str, Any] | None) -> dict[str, float]:
    """What a training log gets of a record; nothing where κ was not measured."""
    if record is None or "error" in record:
        return {}
    overall = {f"kappa/{word}": record[word] for word in ("median_over_layers", "mean_over_layers")}
    return overall | {f"kappa/{layer['name']}": layer["kappa"]["median"] for layer in record["layers"]}


def _beside(model: Any, batch: Any) -> Any:
    """The batch on the model's device."""
    return send_to_device(batch, next(model.parameters()).device)
