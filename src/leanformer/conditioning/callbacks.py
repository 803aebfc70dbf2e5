"""Tracking for the Hugging Face Trainer and for Lightning. May import tracking and, when called, the two libraries."""

from pathlib import Path
from typing import Any

from leanformer.conditioning.probing import Rule
from leanformer.conditioning.tracking import Tracker


def trainer_callback(
    batch: Any, every: int = 100, path: str | Path | None = None, projections: Rule | None = None
) -> Any:
    """A callback for `transformers.Trainer`: κ by layer before training, every so many steps, and at each epoch's end.

    >>> Trainer(model, args, train_dataset=data, callbacks=[lf.trainer_callback(batch, every=100)])

    The records are in `callback.tracker.records`.
    """
    from transformers import TrainerCallback

    class KappaCallback(TrainerCallback):
        tracker: Tracker

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            self.tracker = Tracker(model, _on_device(batch, model), every, path, projections)
            self.tracker.step = state.global_step
            self.tracker.record(epoch=0.0)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.tracker.step = state.global_step
            if state.global_step % every == 0:
                self.tracker.record(epoch=state.epoch)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % every:
                self.tracker.record(epoch=state.epoch)

    return KappaCallback()


def lightning_callback(
    batch: Any, every: int = 100, path: str | Path | None = None, projections: Rule | None = None
) -> Any:
    """A callback for Lightning's Trainer: κ by layer before training, every so many steps, and at each epoch's end.

    >>> Trainer(callbacks=[lf.lightning_callback(batch, every=100)])

    The records are in `callback.tracker.records`.
    """
    from lightning.pytorch import Callback

    class KappaCallback(Callback):
        tracker: Tracker

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.tracker = Tracker(pl_module, _on_device(batch, pl_module), every, path, projections)
            self.tracker.step = trainer.global_step
            self.tracker.record(epoch=trainer.current_epoch)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
            seen, self.tracker.step = self.tracker.step, trainer.global_step
            if trainer.global_step != seen and trainer.global_step % every == 0:  # once per step, not per batch
                self.tracker.record(epoch=trainer.current_epoch)

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            if trainer.global_step % every:
                self.tracker.record(epoch=trainer.current_epoch + 1)

    return KappaCallback()


def _on_device(batch: Any, model: Any) -> Any:
    device = next(model.parameters()).device
    if hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: _on_device(value, model) for key, value in batch.items()}
    return tuple(_on_device(value, model) for value in batch) if isinstance(batch, (tuple, list)) else batch
