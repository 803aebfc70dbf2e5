"""One training step of a real design, traced on the meta device: seconds instead of microseconds, and exact."""

from __future__ import annotations

import functools

from leanformer.architecture import Architecture
from leanformer.costs.closed_forms import formula
from leanformer.costs.setting import Setting
from leanformer.costs.tracing import Trace, trace
from leanformer.models import families


@functools.lru_cache(maxsize=256)
def traced(architecture: Architecture, setting: Setting) -> Trace:
    """One step of the design on the meta device."""
    family = families.family(architecture.family)
    model = family.build(architecture, device="meta").train()
    inputs = family.example_inputs(architecture, setting.batch, setting.tokens)
    inputs = {name: tensor.to("meta") for name, tensor in inputs.items()}
    with family.configure(model, setting.attention, setting.checkpointing):
        return trace(model, inputs, family.loss, precision=setting.precision)


def peak_memory(architecture: Architecture, setting: Setting) -> int:
    """Bytes at the worst moment of training: parameters, optimizer state, and the traced peak of everything else.

    A trace runs the whole model on one device. Where the model is divided among several, this is the closed form's.
    """
    closed = formula(architecture, setting)
    if setting.parts > 1:
        return closed.cost(architecture, setting).memory_bytes
    params = closed.parameters(architecture).total
    return setting.state_bytes(params) + max(traced(architecture, setting).peak_bytes, 4 * params)
