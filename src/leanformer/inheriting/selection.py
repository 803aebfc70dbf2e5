"""Which layers of a trained model stay: by a rule, by hand, or by what the model does on a few samples."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from leanformer.foundation.arguments import ArgumentError
from leanformer.foundation.formats import counted
from leanformer.inheriting.calibration import Calibration, Progress
from leanformer.inheriting.record import GIVEN, LayerScore, Rule

RULES: tuple[str, ...] = tuple(rule for rule in get_args(Rule) if rule != GIVEN)


@dataclass
class Selection:
    """The layers of a trained model, and which of them stay."""

    stages: Sequence[int]
    """For each layer, its stage."""
    wanted: Sequence[int]
    """For each stage, how many layers stay."""
    influences: list[float] = field(default_factory=list)
    without: list[float | None] = field(default_factory=list)
    """What the model loses without each layer alone."""
    removed: list[int] = field(default_factory=list)
    """By the greedy rule, the layers that go, in order."""

    @property
    def depth(self) -> int:
        return len(self.stages)

    def of_stage(self, stage: int) -> list[int]:
        return [layer for layer, where in enumerate(self.stages) if where == stage]

    def chosen(self, rule: Rule, calibration: Calibration, progress: Progress) -> list[int]:
        """The layers that stay, by a rule."""
        self.influences = calibration.influences()
        by_rule: dict[str, Callable[[], list[int]]] = {
            "first": lambda: self._in_stages(lambda layers, count: layers[:count]),
            "even": lambda: self._in_stages(
                lambda layers, count: [layers[i * len(layers) // count] for i in range(count)]
            ),
            "influence": lambda: self._strongest(self.influences),
            "ablation": lambda: self._strongest(self._losses(calibration, progress)),
            "greedy": lambda: self._greedy(calibration, progress),
        }
        return by_rule[rule]()

    def _in_stages(self, choose: Callable[[list[int], int], list[int]]) -> list[int]:
        return [layer for stage, count in enumerate(self.wanted) for layer in choose(self.of_stage(stage), count)]

    def _strongest(self, scores: Sequence[float]) -> list[int]:
        """In each stage the layers with the highest scores; of equal ones the earlier."""

        def choose(layers: list[int], count: int) -> list[int]:
            return sorted(sorted(layers, key=lambda layer: (-scores[layer], layer))[:count])

        return self._in_stages(choose)

    def _losses(self, calibration: Calibration, progress: Progress) -> list[float]:
        losses = []
        for layer in range(self.depth):
            progress(f"without layer {layer} of {self.depth}")
            losses.append(calibration.without([layer]).value)
        self.without = [*losses]
        return losses

    def _greedy(self, calibration: Calibration, progress: Progress) -> list[int]:
        """Remove the layer whose removal costs least, then the one whose removal costs least without it, and so on."""
        spare = [len(self.of_stage(stage)) - count for stage, count in enumerate(self.wanted)]
        total = sum(spare)
        while any(spare):
            candidates = [
                layer for layer, stage in enumerate(self.stages) if spare[stage] and layer not in self.removed
            ]
            losses = {}
            for layer in candidates:
                progress(f"layer {len(self.removed) + 1} of {total} to go: trying {layer}")
                losses[layer] = calibration.without([*self.removed, layer]).value
            if not self.removed:
                self.without = [losses.get(layer) for layer in range(self.depth)]
            least = min(candidates, key=lambda layer: losses[layer])
            self.removed.append(least)
            spare[self.stages[least]] -= 1
        return [layer for layer in range(self.depth) if layer not in self.removed]

    def scores(self, kept: Sequence[int]) -> list[LayerScore]:
        return [
            LayerScore(
                layer=layer,
                stage=self.stages[layer],
                influence=self.influences[layer] if self.influences else None,
                without=self.without[layer] if self.without else None,
                removed=self.removed.index(layer) + 1 if layer in self.removed else None,
                kept=layer in kept,
            )
            for layer in range(self.depth)
        ]


def given_layers(layers: str | Sequence[int]) -> list[int] | None:
    """Layers that are named by hand, [0, 2, 4] or "0,2,4"; None if a rule is named."""
    if isinstance(layers, str) and layers in RULES:
        return None
    try:
        listed: list[Any] = layers.split(",") if isinstance(layers, str) else list(layers)
        return [operator.index(int(layer) if isinstance(layer, str) else layer) for layer in listed]
    except (ValueError, TypeError):
        raise _wrong(layers) from None


def _wrong(layers: object) -> ArgumentError:
    rules = ", ".join(RULES)
    return ArgumentError(
        "{layers} takes one of {rules}, or the numbers of layers from 0 on, such as 0,2,4; got {given!r}",
        rules=rules,
        given=layers,
    )


def check_given(layers: Sequence[int], stages: Sequence[int], wanted: Sequence[int] | None) -> None:
    """Layers by hand must be layers of the model, each once, as many as asked for in every stage."""
    depth = len(stages)
    if wrong := [layer for layer in layers if not 0 <= layer < depth]:
        raise ArgumentError(
            "{layers}: there is no layer {wrong}; the trained model has {depth}, 0 to {last}",
            wrong=wrong[0],
            depth=counted(depth, "layer"),
            last=depth - 1,
        )
    if twice := [layer for layer in layers if list(layers).count(layer) > 1]:
        raise ArgumentError("{layers}: layer {twice} is given twice; each layer can stay once", twice=twice[0])
    order = [stages[layer] for layer in layers]
    if order != sorted(order):
        raise ArgumentError("{layers}: layers of a stage stand before those of the next one, got {given}", given=layers)
    found = [sum(stages[layer] == stage for layer in layers) for stage in range(max(stages) + 1)]
    if 0 in found:
        raise ArgumentError("{layers}: stage {empty} keeps no layer; each needs one", empty=found.index(0) + 1)
    if wanted is not None and found != list(wanted):
        raise ArgumentError(
            "{layers} names {found} layers and {depth} asks for {wanted}: give one of the two",
            found=found[0] if len(found) == 1 else found,
            wanted=wanted[0] if len(wanted) == 1 else list(wanted),
        )
