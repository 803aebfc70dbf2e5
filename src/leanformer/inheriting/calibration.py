"""What a trained model does on a few samples: how much each layer changes its input, and what is lost without it.

A layer's block influence is 1 − cos(input, output), the mean over tokens (ShortGPT, Men and others 2024): a layer of
little influence returns nearly its input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from accelerate.utils import send_to_device
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from leanformer.conditioning.inputs import Inputs
from leanformer.conditioning.probing import Call, undisturbed
from leanformer.inheriting.units import Axes, axes_of, place_of, stages_of
from leanformer.models import families

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Loss:
    """A number that a model should keep small, in nats or as a share."""

    name: str
    """next-token loss, divergence or distance."""
    value: float


class Calibration:
    """A model and the samples on which its layers are judged. The model is left as it was."""

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        self.model, self.source = model, inputs.source
        self.call = Call.of(inputs.batch)
        self.family = families.of(model)
        self.layers, self.stages = self.family.layer_paths(model), stages_of(model)
        self.whole = self._output(model)

    # Running

    def _output(self, model: nn.Module) -> _Output:
        device = next(model.parameters()).device
        args, kwargs = send_to_device((tuple(self.call.args), dict(self.call.kwargs)), device)
        with torch.no_grad(), undisturbed(model):
            return _Output.of(model, model(*args, **kwargs))

    def loss(self, model: nn.Module | None = None) -> Loss:
        """What a model loses on the samples: this one by default, or another that takes the same inputs.

        For a causal language model it is the loss of the next token; for any other, the divergence of its answers from
        those of the whole model, or the distance of its features from the whole model's.
        """
        output = self.whole if model is None else self._output(model)
        tokens = self.call.kwargs.get("input_ids")
        if getattr(self.family, "causal", False) and output.is_logits and tokens is not None and output.value.ndim == 3:
            logits, targets = output.value[:, :-1].flatten(0, 1), tokens[:, 1:].flatten().to(output.value.device)
            return Loss("next-token loss", F.cross_entropy(logits.float(), targets).item())
        return self.change(model)

    def change(self, model: nn.Module | None = None) -> Loss:
        """How far a model's answers are from those of the whole model; 0 for the same function."""
        output = self.whole if model is None else self._output(model)
        ours, theirs = self._rows(output.value), self._rows(self.whole.value.to(output.value.device))
        if self.whole.is_logits and theirs.shape[-1] > 1:
            wanted = theirs.log_softmax(-1)
            divergence = F.kl_div(ours.log_softmax(-1), wanted, log_target=True, reduction="batchmean")
            return Loss("divergence", max(0.0, divergence.item()))
        return Loss("distance", ((ours - theirs).norm() / theirs.norm().clamp(min=1e-30)).item())

    def _rows(self, output: Float[Tensor, "*rest"]) -> Float[Tensor, "rows size"]:
        """One row per answer; those about padding do not count."""
        mask = self.call.kwargs.get("attention_mask")
        if mask is not None and mask.shape == output.shape[:-1]:
            return output[mask.bool().to(output.device)].float()
        return output.flatten(0, -2).float()

    def largest_difference(self, model: nn.Module) -> float:
        """Of any output, absolutely."""
        output = self._output(model).value
        return (self._rows(output) - self._rows(self.whole.value.to(output.device))).abs().max().item()

    # Layers

    def influences(self) -> list[float]:
        """Of every layer."""
        found: dict[int, float] = {}

        def see(number: int) -> Callable[..., None]:
            def hook(_: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
                before, after = _streams(args, kwargs, output)[-1]
                cosine = F.cosine_similarity(before.double(), after.double(), dim=-1)
                found[number] = 1 - self._over_tokens(cosine)

            return hook

        with ExitStack() as stack:
            for number, path in enumerate(self.layers):
                handle = self.model.get_submodule(path).register_forward_hook(see(number), with_kwargs=True)
                stack.callback(handle.remove)
            self._output(self.model)
        return [found[number] for number in range(len(self.layers))]

    def _over_tokens(self, values: Float[Tensor, "*tokens"]) -> float:
        """The mean over tokens that are no padding."""
        mask = self.call.kwargs.get("attention_mask")
        if mask is not None and mask.shape == values.shape:
            return values[mask.bool().to(values.device)].mean().item()
        return values.mean().item()

    def without(self, layers: Sequence[int]) -> Loss:
        """What the model loses when these layers return their input."""
        with bypassed(self.model, [self.layers[number] for number in layers]):
            return self.loss(self.model)

    # Neurons

    def stage_of(self, name: str) -> int:
        """The stage of a tensor; the last for what is outside all layers."""
        number, colon, _ = place_of(name, self.layers, self.stages).partition(":")
        return int(number) if colon else self.stages[-1]

    def activity(self, axes: Axes | None = None) -> dict[str, Float[Tensor, " neurons"]]:
        """The mean absolute activation of every MLP neuron, by the name of the tensor that reads it."""
        axes = axes_of(families.describe(self.model), self.model) if axes is None else axes
        places = {name: place_of(name, self.layers, self.stages) for name in self.model.state_dict()}
        reading = {place for place, axis in axes.items() if axis.unit == "neuron" and axis.reads}
        readers = [name for name, place in places.items() if place in reading]
        found: dict[str, Float[Tensor, " neurons"]] = {}

        def see(name: str) -> Callable[..., None]:
            def hook(_: nn.Module, args: Any) -> None:
                activations = args[0].detach().abs().double().flatten(0, -2)
                found[name] = found.get(name, 0) + activations.mean(0).cpu()

            return hook

        with ExitStack() as stack:
            for name in readers:
                module = self.model.get_submodule(name.rpartition(".")[0])
                stack.callback(module.register_forward_pre_hook(see(name)).remove)
            self._output(self.model)
        return found


@dataclass(frozen=True)
class _Output:
    """What a model answers: the logits of classes or tokens, or features."""

    value: Float[Tensor, "*rest"]
    is_logits: bool

    @classmethod
    def of(cls, model: nn.Module, output: Any) -> _Output:
        logits = getattr(output, "logits", None)
        if logits is not None:
            return cls(logits, not hasattr(model.config, "point_dim"))  # points are what they are
        first = next(leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor) and leaf.is_floating_point())
        return cls(first, bool(getattr(model, "num_classes", 0)))


@contextmanager
def bypassed(model: nn.Module, paths: Sequence[str]) -> Iterator[None]:
    """While it is open, these layers return their input."""

    def skip(_: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        streams = [before for before, _ in _streams(args, kwargs, output)]
        if isinstance(output, Tensor):
            return streams[0]
        return type(output)([*streams, *output[len(streams) :]])

    with ExitStack() as stack:
        for path in paths:
            handle = model.get_submodule(path).register_forward_hook(skip, with_kwargs=True)
            stack.callback(handle.remove)
        yield


def _streams(args: Sequence[Any], kwargs: Any, output: Any) -> list[tuple[Tensor, Tensor]]:
    """What a layer takes and hands on: pairs of tensors of one shape. TNT's layers have two streams."""
    given = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    returned = [output] if isinstance(output, Tensor) else [value for value in output if isinstance(value, Tensor)]
    pairs = [pair for pair in zip(given, returned, strict=False) if pair[0].shape == pair[1].shape]
    if not pairs:
        raise ValueError("a layer returns nothing of the shape that it takes, so it cannot be left out")
    return pairs
