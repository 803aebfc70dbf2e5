"""Models that are divided between ranks, against the same models whole; for `launch.py`."""

import torch
from accelerate import Accelerator
from torch.utils._pytree import tree_leaves

import leanformer as lf
from leanformer.conditioning.probing import measure, sharded_parts
from leanformer.models import families
from leanformer.training.settings import Training
from leanformer.training.sharding import divide, keep_own_part, whole_weights
from support.architectures import SMALL

FAMILIES = ("vit", "davit", "gpt2", "llama")
"""Of timm with one stage and with several, and of transformers with and without tied embeddings."""


def divide_families() -> None:
    """A divided model answers as the whole one, has its κ and its weights, and is read as the same architecture."""
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    for key in FAMILIES:
        architecture = SMALL[key]
        torch.manual_seed(0)
        model, inputs = families.build(architecture).eval(), families.example_inputs(architecture, batch=4)
        weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        with torch.no_grad():
            answers = _tensors(model(**inputs))
        kappas = [layer.kappa for layer in measure(model, inputs).summaries()]
        divide(model, Training(steps=1, shard="full"), accelerator)
        assert len(sharded_parts(model)) > 1, key
        with lf.track(model, batch=inputs) as tracker:
            tracked = tracker.records
        with torch.no_grad():
            assert all(map(torch.equal, _tensors(model(**inputs)), answers)), key
        assert [layer.kappa for layer in measure(model, inputs).summaries()] == kappas, key
        keep_own_part(model)
        assert families.describe(model) == architecture, key
        found = whole_weights(model)
        if accelerator.is_main_process:
            assert [layer["kappa"] for layer in tracked[0]["layers"]] == [kappa.model_dump() for kappa in kappas], key
            assert found.keys() == weights.keys(), key
            assert all(torch.equal(tensor, weights[name]) for name, tensor in found.items()), key
        else:
            assert not tracked, key
            assert not found, key


def _tensors(output: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(getattr(output, "logits", output)) if isinstance(leaf, torch.Tensor)]
