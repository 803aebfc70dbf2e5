"""Learning from a trained model as well as from the labels: its answers, and optionally its hidden states.

The teacher is called with exactly what the task calls the student with, so every task can be distilled, a user's own
too. Answers are compared by the divergence of the softened distributions, times T² (Hinton and others 2015), or by the
squared distance where there is one number per sample. Hidden states are compared layer by layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from leanformer.conditioning.probing import unwrap
from leanformer.foundation.records.files import read_json
from leanformer.models import families
from leanformer.models.weights import from_pretrained
from leanformer.tasks.base import Batch, Data
from leanformer.training.settings import Training

INHERITANCE = "inheritance.json"
"""Beside an inherited model: which of the trained model's layers each of its own began with."""


@dataclass
class _ModelCall:
    """One call of a model: what it got, and what it and its layers gave."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    logits: Tensor | None = None
    hidden: list[Tensor] = field(default_factory=list)


class Teacher:
    """A trained model that a student learns from."""

    def __init__(
        self,
        settings: Training,
        student: nn.Module,
        device: torch.device,
        start: Path | None = None,
        autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.settings, self.name, self.autocast = settings, settings.teacher, autocast
        self.model = from_pretrained(settings.teacher).to(device).eval().requires_grad_(False)
        self.layers: list[str] = []
        self.student_layers: list[str] = []
        if settings.teacher_hidden:
            self.student_layers = _layer_paths(unwrap(student), "the student")
            theirs = _layer_paths(self.model, f"the teacher {self.name}")
            self.layers = [theirs[layer] for layer in layer_map(start, len(self.student_layers), len(theirs))]

    def loss(self, data: Data, student: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        """The task's loss and the distance to the teacher, each with its share."""
        share = self.settings.teacher_share
        with _watched(student, self.student_layers, unwrap(student)) as calls:
            own = data.loss(student, batch)
        if not calls:
            raise ValueError("the task never calls its model as model(...), so that a teacher cannot be called alike")
        distances = [self._distance(call) for call in calls]
        return (1 - share) * own + share * sum(distances, own.new_zeros(())) / len(distances)

    def _distance(self, student: _ModelCall) -> Float[Tensor, ""]:
        with torch.no_grad(), self.autocast(), _watched(self.model, self.layers, self.model) as calls:
            self.model(*student.args, **student.kwargs)
        (teacher,) = calls
        found = self._of_answers(student, teacher)
        for ours, theirs in zip(student.hidden, teacher.hidden, strict=True):
            if ours.shape != theirs.shape:
                raise ValueError(
                    f"hidden states have other shapes in the teacher {self.name}: {tuple(theirs.shape)}, "
                    f"{tuple(ours.shape)} in the student; set teacher_hidden=0"
                )
            distance = (ours.float() - theirs.float()).square().mean() / theirs.float().square().mean()
            found = found + self.settings.teacher_hidden * distance / len(student.hidden)
        return found

    def _of_answers(self, student: _ModelCall, teacher: _ModelCall) -> Float[Tensor, ""]:
        ours, theirs = student.logits, teacher.logits
        if ours is None or theirs is None or ours.shape != theirs.shape:
            shapes = [None if logits is None else tuple(logits.shape) for logits in (ours, theirs)]
            raise ValueError(
                f"the teacher {self.name} does not answer as the student does: logits of {shapes[1]}, needed are "
                f"{shapes[0]}; the teacher must be trained on the same classes or tokens"
            )
        ours, theirs = (_without_padding(logits.float(), student.kwargs) for logits in (ours, theirs))
        if ours.shape[-1] == 1:
            return F.mse_loss(ours, theirs)
        temperature = self.settings.teacher_temperature
        ours, theirs = (F.log_softmax(logits / temperature, dim=-1) for logits in (ours, theirs))
        return F.kl_div(ours, theirs, log_target=True, reduction="batchmean") * temperature**2


def _without_padding(logits: Float[Tensor, "batch *tokens size"], kwargs: dict[str, Any]) -> Float[Tensor, "rows size"]:
    """One row per answer; what is said about padding does not count."""
    mask = kwargs.get("attention_mask")
    if mask is not None and mask.shape == logits.shape[:-1]:
        return logits[mask.bool()]
    return logits.flatten(0, -2)


@contextmanager
def _watched(model: nn.Module, layers: Sequence[str], inside: nn.Module) -> Iterator[list[_ModelCall]]:
    """While it is open, every call of a model is noted, with the outputs of these layers."""
    calls: list[_ModelCall] = []
    hidden: list[Tensor] = []

    def note_layer(_: nn.Module, __: Any, output: Any) -> None:
        hidden.append(output if isinstance(output, Tensor) else output[0])

    def note(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
        calls.append(_ModelCall(args, kwargs, logits, list(hidden)))
        hidden.clear()

    with ExitStack() as stack:
        for path in layers:
            stack.callback(inside.get_submodule(path).register_forward_hook(note_layer).remove)
        stack.callback(model.register_forward_hook(note, with_kwargs=True).remove)
        yield calls


def layer_map(start: Path | None, student: int, teacher: int) -> list[int]:
    """For every layer of the student, the teacher's whose hidden states it learns.

    That is the layer that it began with, where the student was inherited from a model of the teacher's depth. Else
    the layers are paired evenly, the last with the last.
    """
    if start is not None and (start / INHERITANCE).is_file():
        written = read_json(start / INHERITANCE)
        if len(written.get("layers", ())) == student and len(written.get("scores", ())) == teacher:
            return [int(layer) for layer in written["layers"]]
    return [-(-(number + 1) * teacher // student) - 1 for number in range(student)]


def _layer_paths(model: nn.Module, what: str) -> list[str]:
    try:
        return families.of(model).layer_paths(model)
    except ValueError as error:
        raise ValueError(f"teacher_hidden needs models whose layers are known; {what}: {error}") from error
