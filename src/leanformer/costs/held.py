"""What one device holds while a model is trained, part by part; also where the model is divided among devices.

With FSDP2, a device holds its part of the parameters, of the gradients and of the optimizer state. While a layer runs,
the device holds it whole, and the next one too, which is fetched meanwhile; in the backward pass also the gradients of
a layer, and the copy of them that is exchanged. What is outside the layers, such as embeddings, is held whole from the
forward to the backward pass, with its gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

from leanformer.costs.setting import STATE_BYTES, Setting


@dataclass(frozen=True, kw_only=True)
class Held:
    """Bytes on one device."""

    __pydantic_config__ = {"extra": "forbid"}

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    """What the forward pass keeps for the backward pass, and the temporary tensors of the head and the loss."""
    gathered: int = 0
    """Parameters and gradients that are held whole while they are used, where the model is divided."""

    @property
    def peak(self) -> int:
        """An estimate of the most at once: activations are freed while gradients are made."""
        return self.parameters + self.optimizer + self.gathered + max(self.activations, self.gradients)


def held(setting: Setting, params: int, outside: int, layer: int, activations: int, casts: int) -> Held:
    """What a device holds of a model.

    Args:
        setting: how it is trained.
        params: all parameters.
        outside: those outside the layers.
        layer: those of the largest layer.
        activations: what a device keeps that holds the whole model.
        casts: of these, the bfloat16 copies of the layers' weights. A divided model has no such copies: its layers are
            gathered in bfloat16.
    """
    parts = setting.parts
    whole = 0
    if parts > 1:
        width = 2 if setting.precision == "bfloat16" else 4
        activations -= casts
        whole = layer * (3 * width + 4) + 8 * outside  # two layers, a layer's gradients, and those exchanged in float32
    return Held(
        parameters=-(-4 * params // parts),
        gradients=-(-4 * params // parts),
        optimizer=-(-STATE_BYTES[setting.optimizer] * params // parts),
        activations=activations,
        gathered=whole,
    )
