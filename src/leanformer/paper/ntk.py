"""κ of tangent kernels: of MLPs against width and depth, and of transformers against heads.

The tangent kernel (NTK) of a network holds, for every pair of samples and of outputs, the inner product of the
gradients with respect to all weights. Its κ bounds how fast plain gradient descent with a small step brings down the
slowest part of a squared loss. The paper cites that wider MLPs, and deeper ones with normalised activations, have a
better conditioned kernel (Sections 2 and 3.3). For transformers it says only that a better conditioned attention is
easier to optimise. So the same is measured here for transformers, which goes beyond its text: is their kernel better
conditioned with more heads?

All kernels are those of initial weights. timm draws weights with a standard deviation of 0.02 at every width. In a
narrow model they are so small that the model is almost linear, and its kernel says little else. So every design is
measured twice: as it is drawn, and with the weights of its linear layers multiplied so that a layer amplifies as much
as in ViT-B.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from statistics import median
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from leanformer.architecture import Architecture, Regime
from leanformer.conditioning.probing import measure
from leanformer.conditioning.spectra import condition_number
from leanformer.experiments import recipes
from leanformer.experiments.cells import with_equal_params
from leanformer.experiments.recipe import Recipe
from leanformer.foundation.arguments import ArgumentError, at_least, numbers
from leanformer.foundation.formats import counted
from leanformer.foundation.records.base import RecordPart
from leanformer.foundation.records.circumstances import DatedRecord, circumstances, fields_of
from leanformer.models import families
from leanformer.tasks import base as tasks
from leanformer.training.randomness import process_state_kept, seed_everything

RECIPE = "digits"
WIDTHS = tuple(2**power for power in range(6, 15))
DEPTHS = (1, 2, 4, 8, 16, 32)
HEADS = (1, 2, 4, 8, 16)
POINT_DIM = 16
"""Dimensions of the points on the sphere that MLPs see."""
VIT_B_WIDTH = 768
"""At this width, a standard deviation of 0.02 amplifies 0.55 times."""
PERIOD = 2 * math.pi
Start = Literal["as drawn", "as strong as in ViT-B"]
"""Initial weights: see above."""
STARTS: tuple[Start, ...] = get_args(Start)

Kernel = Float[np.ndarray, "rows rows"]
"""For every sample, or for every output of every sample."""


class WidthRow(RecordPart):
    """An MLP of one hidden layer."""

    width: int
    kappas: tuple[float, ...]
    """One for every seed of points and weights."""


class DepthRow(RecordPart):
    """Infinitely wide MLPs, in closed form."""

    depth: int
    """Hidden layers."""
    normalised: tuple[float, ...]
    """κ if activations are shifted and scaled to mean 0 and variance 1; one for every seed of points."""
    plain: tuple[float, ...]
    """κ with plain ReLU."""


class TransformerRow(RecordPart):
    """A transformer, on held-out samples of a recipe."""

    arm: str = ""
    """original or lean, if it is this arm of the recipe."""
    start: Start = "as drawn"
    regime: Regime
    equal_params: bool
    """Whether the MLP is made so that the design has the original's parameters at this depth."""
    depth: int
    heads: int
    head_dim: int
    mlp_dim: int
    params: int
    kappas: tuple[float, ...]
    """Of the kernel, one for every seed of weights."""
    attention: tuple[float, ...] = ()
    """κ of the attention of the same models, the median over layers and samples; one for every seed."""

    @property
    def kappa(self) -> float:
        return median(self.kappas)


class TangentKernels(DatedRecord):
    """What `leanformer paper ntk` writes."""

    kind: ClassVar[str] = "tangent-kernels"
    version: ClassVar[int] = 2  # in files of version 1 the kernels of the outputs were added

    samples: int
    seeds: int
    recipe: str
    source: str
    widths: tuple[WidthRow, ...]
    limits: tuple[float, ...]
    """κ of one hidden layer of infinite width, for the points of every seed."""
    depths: tuple[DepthRow, ...]
    transformers: tuple[TransformerRow, ...]

    def of(
        self, regime: Regime, *, equal_params: bool = False, start: Start = "as drawn"
    ) -> dict[int, list[TransformerRow]]:
        """The designs of a regime, by depth."""
        key = (regime, equal_params, start)
        rows = [row for row in self.transformers if (row.regime, row.equal_params, row.start) == key]
        return {depth: [row for row in rows if row.depth == depth] for depth in sorted({row.depth for row in rows})}

    def glance(self) -> str:
        narrow, wide = self.widths[0], self.widths[-1]
        mlps = f"MLPs {median(narrow.kappas):.3g} at width {narrow.width}, {median(wide.kappas):.3g} at {wide.width}"
        shown = [
            f"{own[0].kappa:.3g} with {counted(own[0].heads, 'head')} and {own[-1].kappa:.3g} with {own[-1].heads}"
            f" at {counted(depth, 'layer')}"
            for depth, own in self.of("fixed").items()
        ]
        return f"κ of tangent kernels: {mlps}; transformers {', '.join(shown)}"


def ntk(
    recipe: str = RECIPE,
    heads: str | Iterable[int] = HEADS,
    samples: int = 64,
    seeds: int = 3,
    progress: Callable[[str], Any] = lambda step: None,
) -> TangentKernels:
    """κ of the tangent kernels of MLPs and of a recipe's transformer, at its depth and at lean's.

    Args:
        recipe: of images; its original is given other numbers of heads, of one size and as shares of the width.
        heads: numbers of heads.
        samples: held-out ones of the recipe, and points for MLPs.
        seeds: how many; each draws weights and points.
        progress: is called with the design that is about to be measured.
    """
    counts = numbers("heads", heads)
    at_least(2, samples=samples)
    at_least(1, seeds=seeds)
    chosen = recipes.recipe(recipe)
    data = tasks.load(chosen.task)
    inputs = data.probe_batch(samples)
    if not isinstance(inputs, Tensor) or not inputs.is_floating_point():
        raise ArgumentError("{recipe} must be one of images, got {given}", given=recipe)
    points = [sphere(samples, seed) for seed in range(seeds)]
    designs, transformers = list(itertools.product(STARTS, _designs(chosen, counts))), []
    for number, (start, (regime, equal, design)) in enumerate(designs, start=1):
        progress(f"design {number} of {len(designs)}")
        row = _transformer(regime, equal, design, start, inputs.double(), seeds)
        arm = next((name for name in ("original", "lean") if getattr(chosen, name).stages == design.stages), "")
        transformers.append(row.model_copy(update={"arm": arm}))
    return TangentKernels(
        samples=len(inputs),
        seeds=seeds,
        recipe=recipe,
        source=data.contents().source,
        widths=tuple(
            WidthRow(width=width, kappas=tuple(kappa(wide_mlp(own, width, seed)) for seed, own in enumerate(points)))
            for width in WIDTHS
        ),
        limits=tuple(kappa(deep_mlp(own, 1, normalised=False)) for own in points),
        depths=tuple(
            DepthRow(
                depth=depth,
                normalised=tuple(kappa(deep_mlp(own, depth, normalised=True)) for own in points),
                plain=tuple(kappa(deep_mlp(own, depth, normalised=False)) for own in points),
            )
            for depth in DEPTHS
        ),
        transformers=tuple(transformers),
        **fields_of(circumstances()),
    )


def _designs(recipe: Recipe, counts: Sequence[int]) -> Iterator[tuple[Regime, bool, Architecture]]:
    """The recipe's original with other heads, at its own depth and at lean's.

    Heads keep their size, do so at equal parameters, or split the width. What has no place is left out: heads that do
    not divide the width, and heads that alone exceed the parameters.
    """
    depths = sorted({design.stages[0].depth for design in (recipe.original, recipe.lean) if design is not None})
    for depth in depths:
        base = recipe.original.resized(depth=depth)
        for heads in counts:
            wide = base.resized(heads=heads, keep="head_dim")
            yield "fixed", False, wide
            with suppress(ValueError):
                yield "fixed", True, with_equal_params(wide, base)
            if base.stages[0].width % heads == 0:
                yield "split", False, base.resized(heads=heads, keep="width")


def _transformer(
    regime: Regime, equal: bool, design: Architecture, start: Start, inputs: Tensor, seeds: int
) -> TransformerRow:
    kappas, attention, params = [], [], 0
    for seed in range(seeds):
        model = initial(design, start, seed)
        params = sum(weights.numel() for weights in model.parameters())
        kappas.append(kappa(tangent_kernel(model, inputs)))
        attention.append(median(layer.kappa.median for layer in measure(model, inputs).summaries()))
    stage = design.stages[0]
    sizes: dict[str, Any] = {name: getattr(stage, name) for name in ("depth", "heads", "head_dim", "mlp_dim")}
    return TransformerRow(
        start=start,
        regime=regime,
        equal_params=equal,
        **sizes,
        params=params,
        kappas=tuple(kappas),
        attention=tuple(attention),
    )


def initial(design: Architecture, start: Start, seed: int) -> nn.Module:
    """A model with its initial weights, in float64."""
    with process_state_kept():
        seed_everything(seed)
        model = families.build(design).double().eval()
    if start == "as strong as in ViT-B":
        with torch.no_grad():
            for layer in model.modules():
                if isinstance(layer, nn.Linear):
                    layer.weight *= math.sqrt(VIT_B_WIDTH / design.stages[0].width)
    return model


def tangent_kernel(model: nn.Module, inputs: Float[Tensor, "samples ..."]) -> Kernel:
    """The kernel of a model: gradients of every output of every sample, multiplied. A sample has one row per output."""
    weights = [own for own in model.parameters() if own.requires_grad]
    gradients = []
    with sdpa_kernel(SDPBackend.MATH):  # the fused kernel cannot take all outputs at once
        for sample in inputs:
            outputs = model(sample[None])[0]
            each = torch.eye(len(outputs), dtype=outputs.dtype)
            parts = torch.autograd.grad(outputs, weights, each, is_grads_batched=True)
            gradients.append(torch.cat([part.flatten(1) for part in parts], dim=1))
    jacobian = torch.cat(gradients)
    return (jacobian @ jacobian.T).numpy()


def kappa(kernel: Kernel) -> float:
    return float(condition_number(torch.from_numpy(kernel)))


def sphere(samples: int, seed: int) -> Float[np.ndarray, "samples dims"]:
    """Points on the unit sphere."""
    drawn = np.random.default_rng([seed, samples]).standard_normal((samples, POINT_DIM))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def wide_mlp(points: Float[np.ndarray, "samples dims"], width: int, seed: int) -> Kernel:
    """The kernel of one hidden layer of ReLU whose second weights are ±1: a mean over hidden units."""
    hidden = points @ np.random.default_rng([seed, width, 1]).standard_normal((points.shape[1], width))
    on = (hidden > 0).astype(np.float64)
    active = hidden * on
    return (active @ active.T + (points @ points.T) * (on @ on.T)) / width


def deep_mlp(points: Float[np.ndarray, "samples dims"], depth: int, *, normalised: bool) -> Kernel:
    """The kernel of infinitely wide layers of ReLU, on points of length 1 (Jacot et al. 2018; Cho and Saul 2009).

    Each layer maps the cosine of two samples by `dual`, and the kernel of the layers before is multiplied by its slope.
    With `normalised` the activation has mean 0 and variance 1 for Gaussian inputs, as in Agarwal et al. 2021.
    """
    cosines = np.clip(points @ points.T, -1.0, 1.0)
    kernel = cosines
    for _ in range(depth):
        angles = np.arccos(cosines)
        dual = (np.sin(angles) + cosines * (math.pi - angles)) / PERIOD
        slope = (math.pi - angles) / PERIOD
        shift = 1 / PERIOD if normalised else 0.0
        scale = 1 / (0.5 - shift)  # so that the diagonal stays 1
        cosines = np.clip((dual - shift) * scale, -1.0, 1.0)
        kernel = kernel * slope * scale + cosines
    return kernel
