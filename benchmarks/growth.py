"""`python -m benchmarks.growth`: does a model compute the same function after heads and neurons are added?

A model of every family with noise on all its weights, before and after `lf.inherit`; the largest difference of any
output, beside the largest output. Writes results/bench/growth.json and prints the table of
docs/findings/healed_models.md.
"""

from pathlib import Path
from typing import Any

import torch

import leanformer as lf
from leanformer.conditioning.inputs import Inputs
from leanformer.foundation.records.circumstances import circumstances
from leanformer.foundation.records.files import write_json
from leanformer.inheriting.calibration import Calibration
from leanformer.inheriting.transfer import Transfer, inherited
from leanformer.models import families

RESULT = Path(__file__).parents[1] / "results" / "bench" / "growth.json"
DECODER: dict[str, Any] = {"width": 256, "heads": 8, "head_dim": 32, "mlp_dim": 512, "vocab_size": 1000}
MODELS: dict[str, dict[str, Any]] = {
    "vit_tiny_patch16_224": {"depth": 2},
    "deit_tiny_distilled_patch16_224": {"depth": 2},
    "xcit_nano_12_p16_224": {"depth": 2},
    "tnt_s_patch16_224": {"depth": 2},
    "volo_d1_224": {"depth": [1, 1, 2, 1]},
    "davit_tiny": {"depth": [1, 1, 2, 1]},
    "swin_tiny_patch4_window7_224": {"depth": [2, 1, 2, 1]},
    "vit-base-patch16-224": {"depth": 2},
    "dinov2-small": {"depth": 2, "img_size": 224},
    "crammed-bert": {"depth": 2},
    "tinystories-gpt2": {"depth": 2},
    "nystromformer-listops": {},
    "gpt2": {"depth": 2},
    "bert-base-uncased": {"depth": 2},
    "roberta-base": {"depth": 2},
    "distilbert-base-uncased": {"depth": 2},
    "ModernBERT-base": {"depth": 2},
    "llama": {"depth": 2, **DECODER},
    "qwen3": {"depth": 2, "kv_groups": 2, **DECODER},
    "farthest-point": {},
}


@torch.no_grad()
def measured(name: str, sizes: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(0)
    model = lf.create(name, **sizes).eval()
    for parameter in model.parameters():
        parameter.add_(0.02 * torch.randn_like(parameter))
    design = lf.describe(model)
    calibration = Calibration(model, Inputs(families.example_inputs(design, 2), "random inputs"))
    heads = design.resized(heads=[2 * stage.heads for stage in design.stages])
    neurons = design.resized(mlp_dim=[2 * stage.mlp_dim for stage in design.stages])
    layers = range(design.depth)
    grown = {
        "fresh": inherited(model, heads, Transfer(layers, "fresh")),
        "copied": inherited(model, heads, Transfer(layers, "copied")),
        "neurons": inherited(model, neurons, Transfer(layers)),
    }
    differences = {way: calibration.largest_difference(lean) for way, lean in grown.items()}
    return {"family": design.family, "model": name, "largest": calibration.whole.value.abs().max().item()} | differences


def table(rows: list[dict[str, Any]]) -> str:
    """As docs/findings/healed_models.md has it."""
    lines = ["| model | largest output | heads, fresh | heads, copied | neurons |", "|---|---:|---:|---:|---:|"]
    for row in rows:
        shown = " | ".join(f"{row[way]:.1e}" if row[way] else "0" for way in ("fresh", "copied", "neurons"))
        lines.append(f"| {row['model']} | {row['largest']:.1f} | {shown} |")
    return "\n".join(lines)


def main() -> None:
    rows = [measured(name, sizes) for name, sizes in MODELS.items()]
    write_json(RESULT, {"rows": rows, **circumstances().model_dump()})
    print(table(rows))


if __name__ == "__main__":
    main()
