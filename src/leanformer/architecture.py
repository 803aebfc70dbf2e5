"""What a transformer is, in plain numbers.

An `Architecture` says which family a model belongs to, which upstream model it starts from, and how deep and wide each
of its stages is. It knows nothing about PyTorch: `leanformer.models` turns it into a module and reads it back.
Standard library only.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import groupby
from numbers import Integral
from types import MappingProxyType
from typing import Any, Literal, Self, cast

Keep = Literal["head_dim", "width"]
"""What stays when heads change: `head_dim` is the regime `fixed` (attention grows), `width` is `split` (every head
shrinks).
"""
Regime = Literal["fixed", "split"]
"""The word that people type for it."""
Numbers = int | Sequence[int]
"""One number for all stages, or one number per stage."""

REGIMES: Mapping[Keep, Regime] = MappingProxyType({"head_dim": "fixed", "width": "split"})
KEEPS: Mapping[str, Keep] = MappingProxyType({regime: keep for keep, regime in REGIMES.items()})

LARGEST = 2**31 - 1
"""The largest size: products of two of them still fit into 64 bits."""
DEEPEST = 10_000
"""The most layers of a stage: more would take minutes to build, even without weights."""

RENAMED_FAMILIES: Mapping[str, str] = MappingProxyType({"stories": "story-gpt", "points": "point-encoder"})
"""What files of leanformer 0.1 call a family, and what it is called now."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A run of identical layers."""

    width: int
    """Size of a token's embedding, D in the papers."""
    depth: int
    """Number of layers."""
    heads: int
    """Attention heads of each layer, h."""
    head_dim: int
    """Size of one head, d. `heads * head_dim` need not equal `width`."""
    mlp_dim: int
    """Hidden size of the MLP, as the family counts it (a gated MLP counts both halves)."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if type(value) is not int:
                if isinstance(value, bool) or not isinstance(value, Integral):
                    raise ValueError(f"{item.name} must be a whole number, got {value!r}")
                object.__setattr__(self, item.name, int(value))  # NumPy's integers do not go into JSON
            if value < 1:
                raise ValueError(f"{item.name} must be at least 1, got {value}")
            if value > (largest := DEEPEST if item.name == "depth" else LARGEST):
                raise ValueError(f"{item.name} must be at most {largest:,}, got {int(value).bit_length()} bits")

    @property
    def inner_width(self) -> int:
        """Width of the concatenated heads, h·d: the columns of the attention block whose conditioning is measured."""
        return self.heads * self.head_dim

    def resized(
        self,
        *,
        depth: int | None = None,
        heads: int | None = None,
        head_dim: int | None = None,
        mlp_dim: int | None = None,
        width: int | None = None,
        keep: Keep | Regime = "head_dim",
    ) -> Self:
        """The stage with other sizes; `Architecture.resized` says what each argument means."""
        splits = _checked(keep, heads, head_dim) == "width" and heads is not None
        given = {"depth": depth, "heads": heads, "head_dim": head_dim, "mlp_dim": mlp_dim, "width": width}
        changed = replace(self, **{word: size for word, size in given.items() if size is not None})
        return replace(changed, head_dim=changed._split()) if splits else changed

    def _split(self) -> int:
        """The size of a head when all heads together are as wide as a token."""
        if self.width % self.heads == 0:
            return self.width // self.heads
        divisors = [h for h in range(1, self.width + 1) if self.width % h == 0]
        near = sorted(sorted(divisors, key=lambda h: (abs(h - self.heads), -h))[:4])
        raise ValueError(
            f"heads={self.heads} do not divide width {self.width}, so they cannot split it; "
            f"use one of {near}, or keep='head_dim' to let attention be wider than the tokens"
        )

    def __str__(self) -> str:
        layers, heads = _counted(self.depth, "layer"), _counted(self.heads, "head")
        return f"{layers} of {heads} × {self.head_dim}, width {self.width}, MLP {self.mlp_dim}"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _checked(keep: str, heads: object, head_dim: object) -> Keep:
    """What is to be kept, if that is possible."""
    kept = KEEPS.get(keep, keep) if isinstance(keep, str) else None
    if kept not in REGIMES:
        raise ValueError(f"keep must be 'head_dim' (regime fixed) or 'width' (regime split), got {keep!r}")
    if kept == "width" and heads is not None and head_dim is not None:
        raise ValueError("head_dim and keep='width' contradict each other: splitting the width decides head_dim")
    return cast(Keep, kept)


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A whole model: its family, the upstream model it starts from, its stages, and what else shapes it."""

    family: str
    """The family of `leanformer.models` that builds it."""
    name: str
    """The upstream model that everything not said here is taken from."""
    stages: tuple[Stage, ...]
    """The layers in order. In families with one width, several stages are a per-layer schedule."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What else was asked for, in the family's own words (num_classes, img_size, vocab_size, …)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(self.stages))
        if not self.stages:
            raise ValueError("an architecture needs at least one stage, got none")
        try:
            plain = json.loads(json.dumps(dict(self.options), sort_keys=True, default=_whole_number))
        except TypeError as error:
            raise ValueError(f"options must be plain numbers, strings and lists: {error}") from error
        object.__setattr__(self, "options", MappingProxyType(plain))

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __reduce__(self) -> Any:  # a mapping proxy does not pickle; the plain form does
        return type(self).from_dict, (self.to_dict(),)

    # Reading

    @property
    def depth(self) -> int:
        """Layers over all stages."""
        return sum(stage.depth for stage in self.stages)

    @property
    def layers(self) -> tuple[Stage, ...]:
        """One stage of depth 1 per layer."""
        return tuple(replace(stage, depth=1) for stage in self.stages for _ in range(stage.depth))

    def differences(self, other: "Architecture", here: str = "here", there: str = "there") -> list[str]:
        """How `other` differs from this one, in words, stage by stage; empty when they are equal.

        `here` and `there` say where each of the two was found.
        """

        def unequal(ours: Any, theirs: Any) -> str:
            return f"{ours} {here}, {theirs} {there}"

        def stated(one: "Architecture", key: str) -> str:
            return repr(one.options[key]) if key in one.options else "not given"

        found = [
            f"{word}: {unequal(repr(ours), repr(theirs))}"
            for word, ours, theirs in (("family", self.family, other.family), ("name", self.name, other.name))
            if ours != theirs
        ]
        if len(self.stages) != len(other.stages):
            found.append(f"stages: {unequal(len(self.stages), len(other.stages))}")
        for index, (ours, theirs) in enumerate(zip(self.stages, other.stages, strict=False), start=1):
            sizes = [
                f"{item.name} {unequal(getattr(ours, item.name), getattr(theirs, item.name))}"
                for item in fields(Stage)
                if getattr(ours, item.name) != getattr(theirs, item.name)
            ]
            if sizes:
                found.append(f"stage {index}: " + "; ".join(sizes))
        keys = sorted(self.options.keys() | other.options.keys())
        return found + [
            f"option {key}: {unequal(stated(self, key), stated(other, key))}"
            for key in keys
            if self.options.get(key) != other.options.get(key)
        ]

    # Changing: each returns a new description

    def resized(
        self,
        *,
        depth: Numbers | None = None,
        heads: Numbers | None = None,
        head_dim: Numbers | None = None,
        mlp_dim: Numbers | None = None,
        width: Numbers | None = None,
        keep: Keep | Regime = "head_dim",
    ) -> Self:
        """The same model with other sizes; what is not given stays.

        Args:
            depth: layers; one number for a model of one stage, else one per stage.
            heads, head_dim, mlp_dim, width: one number for all stages, or one per stage.
            heads: also, for a model of one stage, a schedule: a list of two or more numbers gives each layer its own,
                and the depth becomes the length of the list.
            keep: what stays when heads change: "head_dim" (regime "fixed", attention grows) or "width" (regime "split",
                each head gets its share of the width).
        """
        _checked(keep, heads, head_dim)
        schedule = _listed(heads)
        if schedule is not None and len(self.stages) == 1 and len(schedule) > 1:
            if depth is not None and self._per_stage("depth", depth) != [len(schedule)]:
                raise ValueError(f"heads is a schedule of {len(schedule)} layers, but depth is {depth}")
            layer = self.resized(width=width).stages[0]
            layers = (layer.resized(depth=1, heads=count, keep=keep) for count in schedule)
            return replace(self, stages=tuple(layers)).merged().resized(head_dim=head_dim, mlp_dim=mlp_dim)
        if depth is not None and _listed(depth) is None and len(self.stages) > 1:
            now = [stage.depth for stage in self.stages]
            raise ValueError(
                f"depth must be a list of {len(self.stages)} numbers, one per stage (now {now}), got {depth}"
            )
        given = {"depth": depth, "heads": heads, "head_dim": head_dim, "mlp_dim": mlp_dim, "width": width}
        sizes = {word: self._per_stage(word, value) for word, value in given.items() if value is not None}
        changed = (
            stage.resized(keep=keep, **{word: values[index] for word, values in sizes.items()})
            for index, stage in enumerate(self.stages)
        )
        return replace(self, stages=tuple(changed))

    def _per_stage(self, word: str, value: Numbers) -> list[int]:
        values = _listed(value)
        if values is None:
            return [cast(int, value)] * len(self.stages)  # Stage checks that it is a number
        if len(values) != len(self.stages):
            raise ValueError(
                f"{word} names {_counted(len(values), 'stage')}, {self.name} has {len(self.stages)}: "
                f"give one number for all or {_counted(len(self.stages), 'number')}, got {values}"
            )
        return values

    def with_options(self, **options: Any) -> Self:
        return replace(self, options={**self.options, **options})

    def merged(self) -> Self:
        """The same layers with neighbouring stages joined where they differ in depth only."""
        runs = groupby(self.stages, key=lambda stage: replace(stage, depth=1))
        return replace(self, stages=tuple(replace(layer, depth=sum(s.depth for s in run)) for layer, run in runs))

    # Writing and reading back

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, strings and numbers: what JSON and YAML keep."""
        return {
            "family": self.family,
            "name": self.name,
            "stages": [asdict(stage) for stage in self.stages],
            "options": dict(self.options),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        missing = {"family", "name", "stages"} - plain.keys()
        unknown = plain.keys() - {"family", "name", "stages", "options"}
        if missing or unknown:
            wrong = [f"lacks {word!r}" for word in sorted(missing)] + [
                f"has an unknown {word!r}" for word in sorted(unknown)
            ]
            raise ValueError(f"not an architecture: it {', '.join(wrong)}")
        family = RENAMED_FAMILIES.get(plain["family"], plain["family"])
        stages = []
        for index, stage in enumerate(plain["stages"], start=1):
            try:
                stages.append(Stage(**stage))
            except TypeError:
                wanted = ", ".join(item.name for item in fields(Stage))
                raise ValueError(
                    f"stage {index} must have exactly {wanted}; got {', '.join(map(str, stage))}"
                ) from None
        return cls(family=family, name=plain["name"], stages=tuple(stages), options=plain.get("options") or {})

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls.from_dict(json.loads(text))

    def __str__(self) -> str:
        return f"{self.name}: " + "; then ".join(map(str, self.stages))


def _listed(value: Numbers | None) -> list[int] | None:
    """The numbers of a list, tuple or array; None for a single number, or for anything that is not a list."""
    return list(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else None


def _whole_number(value: Any) -> int:
    """NumPy's integers, for JSON."""
    if isinstance(value, Integral):
        return int(value)
    raise TypeError(f"{type(value).__name__} {value!r} is none of them")
