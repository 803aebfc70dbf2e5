"""Tracking for the Hugging Face Trainer and for Lightning; each library is imported by its own function."""

from pathlib import Path
from typing import Any

from accelerate.utils import send_to_device

from leanformer.conditioning.probing import Rule
from leanformer.conditioning.tracking import Tracker


def trainer_callback(
    batch: Any, every: int = 100, path: str | Path | None = None, projections: Rule | None = None
) -> Any:
    """A callback for `transformers.Trainer`: κ by layer before training, every `every` steps, and after each epoch.

    >>> Trainer(model, args, train_dataset=data, callbacks=[lf.trainer_callback(batch, every=100)])

    The records are in `callback.tracker.records`.
    """
    from transformers import TrainerCallback

    class KappaCallback(TrainerCallback):
        tracker: Tracker

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            self.tracker = Tracker(model, _beside(model, batch), every, path, projections)
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
    """A callback for Lightning's Trainer: κ by layer before training, every `every` steps, and after each epoch.

    >>> Trainer(callbacks=[lf.lightning_callback(batch, every=100)])

    The records are in `callback.tracker.records`.
    """
    from lightning.pytorch import Callback

    class KappaCallback(Callback):
        tracker: Tracker

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.tracker = Tracker(pl_module, _beside(pl_module, batch), every, path, projections)
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


def _beside(model: Any, batch: Any) -> Any:
    """The batch on the model's device."""
    return send_to_device(batch, next(model.parameters()).device)
