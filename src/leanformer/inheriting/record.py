"""What `lf.inherit` did, as inheritance.json keeps it beside the model."""

from __future__ import annotations

from typing import ClassVar, Literal

from leanformer.architecture import Stage
from leanformer.foundation.formats import NOTHING, counted, joined, parameters, percent, significant
from leanformer.foundation.records.base import PlainArchitecture, RecordPart
from leanformer.foundation.records.circumstances import DatedRecord
from leanformer.inheriting.places import NewHeads
from leanformer.training.distillation import INHERITANCE

FILE = INHERITANCE
GIVEN = "given"
Rule = Literal["influence", "ablation", "greedy", "first", "even", "given"]
"""How layers were chosen: by block influence, by the loss without each, by the loss without all so far, the first,
every k-th, or by hand."""
REASONS: dict[str, str] = {
    "influence": "those that change their input most",
    "ablation": "those without which alone the model loses most",
    "greedy": "what is left when the layer whose removal costs least is removed, again and again",
    "first": "the first",
    "even": "evenly spaced",
    GIVEN: "given by hand",
}


class LayerScore(RecordPart):
    """One layer of the trained model."""

    layer: int
    """From 0."""
    stage: int
    influence: float | None = None
    """1 − cos(input, output), the mean over tokens."""
    without: float | None = None
    """What the model loses without this layer alone."""
    removed: int | None = None
    """By the greedy rule: when it went, from 1."""
    kept: bool


class Inheritance(DatedRecord):
    """A lean model that begins with a trained one's weights, and what that changed before any training."""

    kind: ClassVar[str] = "inheritance"
    version: ClassVar[int] = 2

    model: str
    """The trained model."""
    weights: str = ""
    """A digest of its weights."""
    calibration: str
    """The samples on which its layers were judged."""
    rule: Rule
    layers: list[int]
    """For each layer of the lean model, the trained one that it begins with, from 0."""
    scores: list[LayerScore]
    before: PlainArchitecture
    after: PlainArchitecture
    new_heads: NewHeads
    params_before: int
    params_after: int
    loss: str
    """What `without`, `loss_before` and `loss_after` are: next-token loss, divergence (both in nats) or distance."""
    loss_before: float
    loss_after: float
    difference: float
    """The largest absolute difference between the outputs of the two models."""
    seed: int = 0

    @property
    def function_kept(self) -> bool:
        """Whether the lean model should compute what the trained one does."""
        pairs = zip(self.before.layers, self.after.layers, strict=False)
        return self.before.depth == self.after.depth and all(
            old.head_dim == new.head_dim and old.mlp_dim <= new.mlp_dim for old, new in pairs
        )

    def sentences(self) -> list[str]:
        found = [self._size()]
        if self.before.depth != self.after.depth:
            listed = ", ".join(map(str, self.layers))
            found.append(
                f"{counted(self.after.depth, 'layer')} of {self.before.depth} stay: {listed} ({REASONS[self.rule]})"
            )
        found += self._heads()
        if self.function_kept:
            found.append(
                f"the function is the same before any training: no output differs by more than {self.difference:.1e}"
            )
        else:
            unit = "" if self.loss == "distance" else " nats"
            found.append(
                f"before any training, on {self.calibration}: {self.loss} {significant(self.loss_after)}{unit}, "
                f"{significant(self.loss_before)} of the trained model"
            )
        return found

    def _size(self) -> str:
        fewer = 1 - self.params_after / self.params_before
        change = f"{percent(abs(fewer))} {'fewer' if fewer >= 0 else 'more'}"
        return f"{parameters(self.params_after)} parameters, {change} than the trained model"

    def _heads(self) -> list[str]:
        old, new = (joined([_heads_of(stage) for stage in design.layers], ", ") for design in (self.before, self.after))
        pairs = list(zip(self.before.stages, self.after.stages, strict=False))
        if all(ours.heads == theirs.heads for ours, theirs in pairs):
            return []
        if any(ours.head_dim != theirs.head_dim for ours, theirs in pairs):
            return [f"heads of {old} are divided into heads of {new}, which changes the function"]
        how = {"fresh": "fresh, and their output weights start at zero", "copied": "copies, which share an output"}
        return [f"heads were {old} and are {new}; the new ones are {how[self.new_heads]}"]

    def glance(self) -> str:
        kept = f"layers {', '.join(map(str, self.layers))}" if self.layers else NOTHING
        return f"{self.model!r}: {kept}, {self.params_before:,} → {self.params_after:,} parameters"


def _heads_of(stage: Stage) -> str:
    return f"{stage.heads} × {stage.head_dim}"
