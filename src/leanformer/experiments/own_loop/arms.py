"""Arms of one's own: models that are designs, functions that make a model, or sizes that a command is given.

Three ways to say what is compared:

- `original` is an `Architecture` or a name, `lean` is another one or sizes: a redesign of a known family.
- `model` is a function of sizes, such as `lambda depth, heads: MyModel(depth, heads)`; `original` and `lean` are sizes.
- `original` and `lean` are functions without arguments that make each model.

In the first two, the arms `shallow` and `wide` follow from the sizes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from torch import nn

from leanformer import models
from leanformer.architecture import Architecture
from leanformer.designing.plan import design
from leanformer.experiments.arms import COMPUTED, LEAN, ORIGINAL, SHALLOW, WIDE
from leanformer.experiments.overrides import redesigned, sizes_of
from leanformer.experiments.own_loop.arm import OwnArm, Sizes
from leanformer.foundation.arguments import ArgumentError, texts

Factory = Callable[..., nn.Module]
Given = Architecture | str | Sizes | Callable[[], nn.Module]
"""What an arm may be given as: a design, a model's name, sizes (also as a text, "depth=4,heads=8"), or a function."""

OtherArms = str | Sequence[str] | Mapping[str, Given]
"""More arms: {"narrow": …}, or sizes as in ["narrow:heads=2"]."""

DEPTH = "depth"
"""The size that `shallow` takes from the lean model and `wide` from the original."""


def arms_of(
    original: Given | None,
    lean: Given | None,
    model: Factory | str | Architecture | None = None,
    names: Sequence[str] | None = None,
    others: OtherArms = (),
) -> dict[str, OwnArm]:
    """The arms that were asked for, by name.

    Args:
        original, lean: see the module's docstring.
        model: a function of sizes; or a design or name that `original` and `lean` change.
        names: which arms; by default original, lean, the control where it follows from them, and the others.
        others: more arms, given in the same way; sizes also as in "narrow:heads=2".
    """
    others = _read_others(others)
    if original is None and isinstance(model, (str, Architecture)):
        original, model = model, None
    if clash := {ORIGINAL, LEAN} & others.keys():
        raise ArgumentError("{arm} gives {clash} again: give it by {clash} alone", clash=", ".join(sorted(clash)))
    given = {name: arm for name, arm in {ORIGINAL: original, LEAN: lean, **others}.items() if arm is not None}
    _refuse_models({**given, "model": model})
    makers = _makers(given, model)
    found = {name: makers.given(name, arm) for name, arm in given.items()}
    needs_lean = names is None or {LEAN, *COMPUTED}.intersection(names)
    if LEAN not in found and makers.recommended is not None and needs_lean:
        found[LEAN] = makers.recommended()
    computed = {name: make for name, make in makers.computed.items() if name not in found}
    usual = [ORIGINAL, LEAN, *([SHALLOW] if SHALLOW in computed else [])]
    wanted = list(dict.fromkeys([*(usual if names is None else names), *others]))
    if not wanted:
        raise ArgumentError("{arms} must name at least one arm")
    for name in wanted:
        if name not in found and name not in computed:
            raise ValueError(_no_such_arm(name, [*found, *computed]))
    return {name: found[name] if name in found else computed[name](found[ORIGINAL], found[LEAN]) for name in wanted}


def _read_others(given: OtherArms) -> dict[str, Given]:
    if isinstance(given, Mapping):
        return dict(given)
    found: dict[str, Given] = {}
    for text in texts(given):
        name, colon, sizes = text.partition(":")
        if not colon or name in found:
            raise ArgumentError('{arm} is a new name with sizes, "narrow:heads=2", got "{given}"', given=text)
        found[name] = sizes
    return found


def _refuse_models(given: Mapping[str, Any]) -> None:
    for name, arm in given.items():
        if isinstance(arm, nn.Module):
            raise ArgumentError(
                f"{{{name}}} is a model, but every run needs a fresh one: give a function that makes it, such as "
                "lambda: {kind}(…)",
                kind=type(arm).__name__,
            )


def _no_such_arm(name: str, known: Sequence[str]) -> str:
    if name in (ORIGINAL, LEAN):
        return f"{name} must be given: a design, sizes, or a function that makes the model"
    if name in COMPUTED:
        return (
            f"the arm {name} cannot be made from functions of no arguments: give model, a function of sizes such as "
            "depth and heads, or give the arm its own function"
        )
    return f'there is no arm "{name}": the arms are {", ".join(known)}'


@dataclass(frozen=True)
class _Makers:
    """How arms of one of the three ways are made."""

    given: Callable[[str, Any], OwnArm]
    computed: Mapping[str, Callable[[OwnArm, OwnArm], OwnArm]] = field(default_factory=dict)
    recommended: Callable[[], OwnArm] | None = None
    """Makes the lean arm if none was given."""


def _makers(given: Sizes, model: Any) -> _Makers:
    if callable(model):
        return _sized(given, model)
    first = model if model is not None else given.get(ORIGINAL)
    if isinstance(first, Architecture) or (isinstance(first, str) and "=" not in first):
        return _designed(given, first, from_model=model is not None)
    if all(isinstance(arm, Mapping) or (isinstance(arm, str) and "=" in arm) for arm in given.values()):
        return _sized(given, None)
    return _Makers(_made_by_function)


# Designs of known families


def _designed(given: Sizes, first: Architecture | str, from_model: bool) -> _Makers:
    base = _design(first)
    original = _changed(base, given[ORIGINAL]) if from_model and ORIGINAL in given else base

    def arm(name: str, value: Any) -> OwnArm:
        if name == ORIGINAL:
            return _of_design(name, original)
        if callable(value) and not isinstance(value, Architecture):
            return _made_by_function(name, value)
        return _of_design(name, _changed(original, value))

    def crossed(name: str) -> Callable[[OwnArm, OwnArm], OwnArm]:
        def make(original: OwnArm, lean: OwnArm) -> OwnArm:
            if original.architecture is None or lean.architecture is None:
                raise ValueError(_no_such_arm(name, ()))
            return _of_design(name, COMPUTED[name](original.architecture, lean.architecture))

        return make

    known = not callable(given.get(LEAN))
    return _Makers(
        arm,
        {name: crossed(name) for name in COMPUTED} if known else {},
        lambda: _of_design(LEAN, design(original, progress=False).recommended.architecture),
    )


def _design(given: Architecture | str) -> Architecture:
    return given if isinstance(given, Architecture) else models.architecture_of(given)


def _changed(base: Architecture, given: Any) -> Architecture:
    """A design of its own, or the base with other sizes."""
    if isinstance(given, str) and "=" not in given:
        return models.architecture_of(given)
    return redesigned(base, given if isinstance(given, Architecture) else sizes_given(given))


def _of_design(name: str, architecture: Architecture) -> OwnArm:
    architecture = models.family(architecture.family).canonical(architecture)
    return OwnArm(name, functools.partial(models.build, architecture), architecture)


# Functions of sizes, and sizes alone


def _sized(given: Sizes, model: Factory | None) -> _Makers:
    def arm(name: str, value: Any) -> OwnArm:
        if model is not None and callable(value):
            return _made_by_function(name, value)
        sizes = sizes_given(value)
        _check_sizes(name, sizes, model)
        return OwnArm(name, None if model is None else functools.partial(model, **sizes), sizes=sizes)

    def crossed(name: str, depth_of: str) -> Callable[[OwnArm, OwnArm], OwnArm]:
        def make(original: OwnArm, lean: OwnArm) -> OwnArm:
            deep, layers = (lean, original) if depth_of == LEAN else (original, lean)
            return arm(name, {**layers.sizes, DEPTH: deep.sizes[DEPTH]})

        return make

    crossable = all(name in given and _has_depth(given[name]) for name in (ORIGINAL, LEAN))
    return _Makers(arm, {SHALLOW: crossed(SHALLOW, LEAN), WIDE: crossed(WIDE, ORIGINAL)} if crossable else {})


def _has_depth(given: Any) -> bool:
    return not callable(given) and DEPTH in sizes_given(given)


def sizes_given(given: Any) -> dict[str, Any]:
    """Sizes as JSON keeps them."""
    sizes = sizes_of(given) if isinstance(given, str) else dict(given) if isinstance(given, Mapping) else None
    if sizes is None or not sizes or not all(isinstance(name, str) for name in sizes):
        raise ValueError(f'sizes are given as in "depth=4,heads=8" or dict(depth=4, heads=8), got {given!r}')
    return {name: _plain(name, value) for name, value in sizes.items()}


def _plain(name: str, value: Any) -> Any:
    """The value as JSON keeps it."""
    if isinstance(value, (list, tuple)):
        return [_plain(name, item) for item in value]
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, Integral):  # NumPy's too
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise ValueError(f"the size {name} must be a number or a text, got {value!r}")


def _check_sizes(name: str, sizes: Sizes, model: Factory | None) -> None:
    """Sizes that the function does not take are reported before anything is trained."""
    if model is None:
        return
    try:
        inspect.signature(model).bind(**sizes)
    except TypeError as error:
        listed = ", ".join(f"{key}={value}" for key, value in sizes.items())
        raise ValueError(f"{name}: the function that makes the model cannot be given {listed}: {error}") from error
    except ValueError:  # a function without a signature, such as a builtin
        return


# Functions without arguments


def _made_by_function(name: str, value: Any) -> OwnArm:
    if not callable(value):
        raise ArgumentError(
            "{place} must be a design, a model's name, or a function that makes the model, got {value!r}; sizes need "
            "{model}, a function of them",
            place=name,
            value=value,
        )
    return OwnArm(name, value)
