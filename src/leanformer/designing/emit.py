"""A design as code or configuration, to paste into one's own training."""

from __future__ import annotations

from typing import Literal, get_args

from leanformer.architecture import Architecture
from leanformer.models import families
from leanformer.models.design_files import design_text

Form = Literal["timm", "hf", "leanformer", "yaml"]


def emit(architecture: Architecture, form: Form) -> str:
    """The design as a call (`timm`, `leanformer`), as a configuration of Hugging Face (`hf`) or as numbers (`yaml`)."""
    family = families.family(architecture.family)
    if form == "yaml":
        return design_text(architecture)
    if form == "leanformer":
        return _call_of_leanformer(architecture)
    if form == "hf":
        if not hasattr(family, "config"):
            raise ValueError(f'the form "hf" is for language models; {architecture.name} is not one: use timm or yaml')
        return str(family.config(architecture).to_json_string())
    if form == "timm":
        if not hasattr(family, "timm_options"):
            raise ValueError(f'the form "timm" is for image models; {architecture.name} is not one: use hf or yaml')
        return _call(architecture)
    raise ValueError(f"the form must be one of {', '.join(get_args(Form))}, got {form!r}")


def _call(architecture: Architecture) -> str:
    """A call of timm's own if its constructor can build the design, else of `lf.create`."""
    stages, options = architecture.stages, _options(architecture)
    first = stages[0]
    if len(stages) == 1 and first.inner_width == first.width and first.mlp_dim % first.width == 0:
        heads = "num_heads_outer" if architecture.family == "tnt" else "num_heads"
        sizes = f"depth={first.depth}, {heads}={first.heads}, mlp_ratio={first.mlp_dim // first.width}"
        return f"import timm\n\nmodel = timm.create_model({architecture.name!r}, {sizes}{options})\n"
    return _call_of_leanformer(architecture)


def _call_of_leanformer(architecture: Architecture) -> str:
    stages, options = architecture.stages, _options(architecture)
    structural = families.family(architecture.family).stage_count is not None

    def each(word: str) -> str:
        values = [getattr(stage, word) for stage in stages]
        return f"{word}={values[0] if len(set(values)) == 1 and not (structural and word == 'depth') else values}"

    if len(stages) > 1 and not structural:  # a schedule: one number of heads per layer
        sizes = f"heads={[layer.heads for layer in architecture.layers]}, {each('head_dim')}, {each('mlp_dim')}"
    else:
        sizes = ", ".join(each(word) for word in ("depth", "heads", "head_dim", "mlp_dim"))
    return f"import leanformer as lf\n\nmodel = lf.create({architecture.name!r}, {sizes}{options})\n"


def _options(architecture: Architecture) -> str:
    return "".join(f", {key}={value!r}" for key, value in architecture.options.items())
