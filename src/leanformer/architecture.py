"""What a transformer is, in plain numbers.

An `Architecture` says which family a model belongs to, which upstream model it starts from, and how deep and wide each
of its stages is. It knows nothing about PyTorch: `leanformer.families` turns it into a module and reads it back.
Standard library only.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import groupby
from types import MappingProxyType
from typing import Any, Literal, Self

Keep = Literal["head_dim", "width"]
"""What stays when heads change: `head_dim` is the regime `fixed` (attention grows), `width` is `split` (every head
shrinks).
"""

REGIMES: Mapping[Keep, str] = MappingProxyType({"head_dim": "fixed", "width": "split"})
KEEPS: Mapping[str, Keep] = MappingProxyType({regime: keep for keep, regime in REGIMES.items()})


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
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{item.name} must be a whole number, got {value!r}")
            if value < 1:
                raise ValueError(f"{item.name} must be at least 1, got {value}")

    @property
    def inner_width(self) -> int:
        """Width of the concatenated heads, h·d: the columns of the attention block whose conditioning is measured."""
        return self.heads * self.head_dim

    def with_heads(self, heads: int, keep: Keep = "head_dim") -> Self:
        if keep not in REGIMES:
            raise ValueError(f"keep must be 'head_dim' (regime fixed) or 'width' (regime split), got {keep!r}")
        changed = replace(self, heads=heads)  # checks the number before it divides
        if keep == "head_dim":
            return changed
        if self.width % heads:
            divisors = [h for h in range(1, self.width + 1) if self.width % h == 0]
            near = sorted(sorted(divisors, key=lambda h: (abs(h - heads), -h))[:4])
            raise ValueError(
                f"heads={heads} do not divide width {self.width}, so they cannot split it; "
                f"use one of {near}, or keep='head_dim' to let attention be wider than the tokens"
            )
        return replace(changed, head_dim=self.width // heads)

    def __str__(self) -> str:
        return f"{self.depth} layers of {self.heads} heads × {self.head_dim}, width {self.width}, MLP {self.mlp_dim}"


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A whole model: its family, the upstream model it starts from, its stages, and what else shapes it."""

    family: str
    """The room of `leanformer.families` that builds it."""
    name: str
    """The upstream model that everything not said here is taken from."""
    stages: tuple[Stage, ...]
    """The layers in order. In families with one width, several stages are a per-layer schedule."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else was asked for, in the family's own words (num_classes, img_size, vocab_size, …)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(self.stages))
        if not self.stages:
            raise ValueError("an architecture needs at least one stage, got none")
        try:
            plain = json.loads(json.dumps(dict(self.options), sort_keys=True))
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

    def differences(self, other: "Architecture") -> list[str]:
        """What `other` has that this does not, in words, stage by stage; empty when they are equal."""
        found = [
            f"{word}: {ours!r} here, {theirs!r} there"
            for word, ours, theirs in (("family", self.family, other.family), ("name", self.name, other.name))
            if ours != theirs
        ]
        if len(self.stages) != len(other.stages):
            found.append(f"stages: {len(self.stages)} here, {len(other.stages)} there")
        for index, (ours, theirs) in enumerate(zip(self.stages, other.stages, strict=False), start=1):
            unequal = [
                f"{item.name} {getattr(ours, item.name)} here, {getattr(theirs, item.name)} there"
                for item in fields(Stage)
                if getattr(ours, item.name) != getattr(theirs, item.name)
            ]
            if unequal:
                found.append(f"stage {index}: " + "; ".join(unequal))
        keys = sorted(self.options.keys() | other.options.keys())
        return found + [
            f"option {key}: {self.options.get(key)!r} here, {other.options.get(key)!r} there"
            for key in keys
            if self.options.get(key) != other.options.get(key)
        ]

    # Changing: each returns a new description

    def with_depth(self, depth: int | Sequence[int]) -> Self:
        """One number for a model of one stage, else one number per stage."""
        if not isinstance(depth, Sequence) and len(self.stages) > 1:
            now = [stage.depth for stage in self.stages]
            raise ValueError(
                f"depth must be a list of {len(self.stages)} numbers, one per stage (now {now}), got {depth}"
            )
        return self._each("depth", depth, lambda stage, value: replace(stage, depth=value))

    def with_heads(self, heads: int | Sequence[int], keep: Keep = "head_dim") -> Self:
        """Change the heads of all stages alike, or stage by stage."""
        return self._each("heads", heads, lambda stage, value: stage.with_heads(value, keep))

    def with_head_dim(self, head_dim: int | Sequence[int]) -> Self:
        return self._each("head_dim", head_dim, lambda stage, value: replace(stage, head_dim=value))

    def with_mlp(self, mlp_dim: int | Sequence[int]) -> Self:
        return self._each("mlp_dim", mlp_dim, lambda stage, value: replace(stage, mlp_dim=value))

    def with_width(self, width: int | Sequence[int]) -> Self:
        return self._each("width", width, lambda stage, value: replace(stage, width=value))

    def with_options(self, **options: Any) -> Self:
        return replace(self, options={**self.options, **options})

    def with_head_schedule(self, heads: Sequence[int], keep: Keep = "head_dim") -> Self:
        """One number of heads per layer, for a model of one stage; the depth becomes the number of entries."""
        if len(self.stages) != 1:
            raise ValueError(f"a head schedule starts from one stage, this architecture has {len(self.stages)}")
        layer = replace(self.stages[0], depth=1)
        return replace(self, stages=tuple(layer.with_heads(count, keep) for count in heads)).merged()

    def merged(self) -> Self:
        """The same layers with neighbouring stages joined where they differ in depth only."""
        runs = groupby(self.stages, key=lambda stage: replace(stage, depth=1))
        return replace(self, stages=tuple(replace(layer, depth=sum(s.depth for s in run)) for layer, run in runs))

    def _each(self, word: str, values: int | Sequence[int], change: Any) -> Self:
        if not isinstance(values, Sequence):
            values = [values] * len(self.stages)  # Stage checks that it is a number
        if len(values) != len(self.stages):
            raise ValueError(
                f"{word} names {len(values)} stages, {self.name} has {len(self.stages)}: "
                f"give one number for all or {len(self.stages)} numbers, got {list(values)}"
            )
        return replace(self, stages=tuple(change(s, v) for s, v in zip(self.stages, values, strict=True)))

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
        stages = []
        for index, stage in enumerate(plain["stages"], start=1):
            try:
                stages.append(Stage(**stage))
            except TypeError:
                wanted = ", ".join(item.name for item in fields(Stage))
                raise ValueError(f"stage {index} must have just {wanted}; got {', '.join(map(str, stage))}") from None
        return cls(family=plain["family"], name=plain["name"], stages=tuple(stages), options=plain.get("options") or {})

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls.from_dict(json.loads(text))

    def __str__(self) -> str:
        return f"{self.name}: " + "; then ".join(map(str, self.stages))
