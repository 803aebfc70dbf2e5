"""`lf.inherit`: a lean model that begins with a trained one's weights."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast, get_args

import torch
from torch import nn

from leanformer.architecture import Architecture, Keep, Numbers, Regime
from leanformer.conditioning.inputs import Inputs, choose_inputs
from leanformer.data.fingerprints import fingerprint
from leanformer.foundation.arguments import ArgumentError, check_types, numbers, writable
from leanformer.foundation.progress import RunsProgress, working
from leanformer.foundation.records.circumstances import circumstances, fields_of
from leanformer.foundation.records.keeping import publish
from leanformer.inheriting.calibration import Calibration, Progress
from leanformer.inheriting.places import NewHeads
from leanformer.inheriting.record import FILE, GIVEN, Inheritance, Rule
from leanformer.inheriting.selection import Selection
from leanformer.inheriting.sizes import wanted_architecture
from leanformer.inheriting.transfer import Transfer, inherited
from leanformer.inheriting.units import axes_of, stages_of
from leanformer.models import families, preprocessing
from leanformer.models.weights import from_pretrained, has_tokenizer, is_saved, save_pretrained, saved_in
from leanformer.training.run import held_out_inputs, is_run

Model = str | Path | nn.Module
ROUNDING = {torch.float64: 1e-6, torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.1}
"""By precision, the share of the largest output by which outputs may differ when sums change their order."""


def inherit(
    model: Model,
    *,
    depth: Numbers | str | None = None,
    heads: Numbers | str | None = None,
    keep: Keep | Regime = "fixed",
    mlp_dim: Numbers | str | None = None,
    layers: str | Sequence[int] = "influence",
    new_heads: NewHeads = "fresh",
    inputs: Any = None,
    images: str | Path | None = None,
    text: str | Path | None = None,
    random: bool = False,
    batch: int = 8,
    tokens: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    report: bool = True,
    progress: bool | None = None,
) -> nn.Module:
    """A lean model that begins with a trained one's weights: fewer layers, more heads, narrower MLPs.

    >>> lean = lf.inherit("path/to/minilm", depth=3, heads=24, out="minilm-lean")
    >>> lean.inheritance  # which layers stay, and what the model lost before any training

    Args:
        model: a trained model: its folder, that of a run, a .gguf file, or a module of a known family.
        depth: how many layers stay; for a model with stages, one number per stage, also as "2,2,6,2" [default: all].
        heads: how many heads each layer has, at least as many as before.
        keep: "head_dim" (regime "fixed"): new heads are added so that the function stays the same; "width" (regime
            "split"): the columns of each head are divided, which changes the function.
        mlp_dim: neurons of each MLP. A smaller MLP keeps those with the largest mean activation; a larger one computes
            the same at first.
        layers: which layers stay. "influence": those that change their input most; "ablation": those whose removal, one
            at a time, costs most; "greedy": what is left after repeatedly removing the layer whose removal costs
            least; "first"; "even": every k-th; or their indices, counted from 0, [0, 2, 4] or "0,2,4".
        new_heads: "fresh": new heads have new weights, and their output weights start at zero; "copied": they are
            copies, whose output weights add up to what was there.
        inputs: your own batch on which layers are scored, in a form that the model takes.
        images, text, random, batch, tokens: what the batch is made of otherwise, as for `lf.measure`.
        seed: seed of fresh weights and random inputs.
        out: a folder to save the model in, with inheritance.json; by default nothing is written.
        report: whether to draw the figure there too.
        progress: whether to show what is being done; by default where a person is watching.

    Returns:
        The lean model, of the same kind as the trained one and in its mode. Its attribute `inheritance` is the record.
    """
    check_types(locals())
    check_new_heads(new_heads)
    folder = None if out is None else _free(writable(Path(out)), model)
    trained, name = _trained(model)
    sizes = {name: _counts(name, text) for name, text in (("depth", depth), ("heads", heads), ("mlp_dim", mlp_dim))}
    after, by_hand = wanted_architecture(trained, keep=keep, layers=layers, **sizes)
    found = inputs_for(trained, model, inputs, images, text, random, batch, tokens, seed)
    with working(f"choosing layers of {name}", progress) as shown:
        lean = choose_and_transfer(trained, name, after, by_hand or cast(Rule, layers), new_heads, found, seed, shown)
    if folder is not None:
        save_inherited(lean, folder, model, report=report, say=RunsProgress(progress).say)
    return lean


def _free(folder: Path, model: Model) -> Path:
    """A folder that holds no model but one that was inherited before."""
    if (folder / "config.json").is_file() and not (folder / FILE).is_file():
        raise ArgumentError("{out}: {folder} holds a model, which would be lost; name another folder", folder=folder)
    if not isinstance(model, nn.Module) and folder.resolve() == Path(model).resolve():
        raise ArgumentError("{out} is the folder of the trained model itself; name another folder")
    return folder


def check_new_heads(new_heads: str) -> NewHeads:
    if new_heads not in get_args(NewHeads):
        raise ArgumentError("{new_heads} must be fresh or copied, got {given!r}", given=new_heads)
    return cast(NewHeads, new_heads)


def weights_of(model: nn.Module) -> str:
    """A digest of a model's weights."""
    parts: list[str | torch.Tensor] = []
    for name, tensor in sorted(model.state_dict().items()):
        parts += [name, tensor.float() if tensor.is_floating_point() else tensor]  # NumPy has no bfloat16
    return fingerprint(*parts)


def _counts(name: str, given: Numbers | str | None) -> Numbers | None:
    """A number or several, also as a text such as "4" or "2,2,6,2"."""
    found = None if given is None else numbers(name, given)
    return found[0] if found is not None and len(found) == 1 else found


def _trained(model: Model) -> tuple[nn.Module, str]:
    """The trained model, and what to call it."""
    if isinstance(model, nn.Module):
        return model, type(model).__name__
    if not is_saved(model):
        raise ValueError(
            f"{model} is not a saved model: inheriting needs trained weights, in a folder that lf.save_pretrained or "
            f"transformers wrote, or in a .gguf file"
        )
    return from_pretrained(model), str(model)


def inputs_for(
    trained: nn.Module,
    model: Model,
    inputs: Any,
    images: str | Path | None,
    text: str | Path | None,
    random: bool,
    batch: int,
    tokens: int | None,
    seed: int,
) -> Inputs:
    """What layers are judged on: a given batch, held-out samples of a run, or what `lf.measure` would take."""
    if inputs is not None:
        if images is not None or text is not None or random:
            raise ArgumentError(
                "{inputs} is a whole batch: {images}, {text} and {random} make one, so give one of them"
            )
        return inputs if isinstance(inputs, Inputs) else Inputs(inputs, "a batch of your own")
    if not isinstance(model, nn.Module) and is_run(Path(model)) and images is None and text is None and not random:
        return held_out_inputs(Path(model), batch)
    return choose_inputs(
        trained,
        "the model" if isinstance(model, nn.Module) else str(model),
        images=None if images is None else Path(images),
        text=None if text is None else Path(text),
        random=random,
        batch=batch,
        tokens=tokens,
        seed=seed,
    )


def choose_and_transfer(
    trained: nn.Module,
    name: str,
    after: Architecture,
    layers: Rule | Sequence[int],
    new_heads: NewHeads,
    inputs: Inputs,
    seed: int,
    progress: Progress,
) -> nn.Module:
    """The lean model of an architecture that was checked, with its record."""
    before, stages = families.describe(trained), stages_of(trained)
    calibration = Calibration(trained, inputs)
    counts = [stage.depth for stage in after.stages] if max(stages) else [after.depth]
    selection = Selection(stages, counts)
    if isinstance(layers, str):
        kept = selection.chosen(layers, calibration, progress)
    else:
        kept, selection.influences = list(layers), calibration.influences()
    neurons = None
    if any(new.mlp_dim < before.layers[old].mlp_dim for new, old in zip(after.layers, kept, strict=True)):
        neurons = _most_active(calibration, after)
    progress("copying weights")
    lean = inherited(trained, after, Transfer(kept, new_heads, neurons, seed))
    _carry_over(trained, lean)
    progress("measuring what changed")
    loss, changed = calibration.loss(), calibration.loss(lean)
    record = Inheritance(
        model=name,
        weights=weights_of(trained),
        calibration=inputs.source,
        rule=cast(Rule, layers if isinstance(layers, str) else GIVEN),
        layers=kept,
        scores=selection.scores(kept),
        before=before,
        after=families.describe(lean),
        new_heads=new_heads,
        params_before=_params(trained),
        params_after=_params(lean),
        loss=loss.name,
        loss_before=loss.value,
        loss_after=changed.value,
        difference=calibration.largest_difference(lean),
        seed=seed,
        **fields_of(circumstances()),
    )
    _check_function(record, calibration)
    cast(Any, lean).inheritance = record
    return lean


def _check_function(record: Inheritance, calibration: Calibration) -> None:
    """Added heads and neurons must not change the function; if they do, tensors are not laid out as is assumed."""
    largest = calibration.whole.value.abs().max().item()
    rounding = ROUNDING.get(next(calibration.model.parameters()).dtype, 0.1)
    if record.function_kept and not record.difference <= rounding * largest:  # also NaN
        raise ValueError(
            f"heads cannot be added to {record.model}: outputs changed by {record.difference:.1e}, of at most "
            f"{largest:.1e}. Tensors of the family {record.before.family} are not in the order that is needed: query, "
            f"key and value, then heads, then columns"
        )


def _most_active(calibration: Calibration, after: Architecture) -> dict[str, torch.Tensor]:
    """For every MLP, the neurons with the largest mean activation, as many as the lean model has."""
    trained = calibration.model
    axes = axes_of(families.describe(trained), trained)
    shares = {
        stage: new.mlp_dim / old.mlp_dim
        for stage, (old, new) in enumerate(zip(families.describe(trained).stages, after.stages, strict=False))
    }
    kept = {}
    for name, activity in calibration.activity(axes).items():
        count = round(len(activity) * shares[calibration.stage_of(name)])
        kept[name] = activity.topk(min(count, len(activity))).indices.sort().values
    return kept


def _carry_over(trained: nn.Module, lean: nn.Module) -> None:
    """What a model says beside its weights: preprocessing, names of classes, how it generates."""
    ours, theirs = cast(Any, lean), cast(Any, trained)
    if not hasattr(theirs, "config"):
        preprocessing.set_preprocessing(lean, preprocessing.stated_by(trained))
        return
    if names := preprocessing.stated_by(trained).get(preprocessing.CLASSES):
        ours.config.id2label = dict(enumerate(names))
        ours.config.label2id = {name: number for number, name in enumerate(names)}
    if getattr(theirs, "generation_config", None) is not None:
        ours.generation_config = theirs.generation_config


def _params(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def save_inherited(lean: nn.Module, folder: Path, model: Model, *, report: bool, say: Progress) -> None:
    """Save a lean model with its record, and the tokenizer of the trained one."""
    save_pretrained(lean, folder)
    if not isinstance(model, nn.Module):
        _copy_companions(saved_in(Path(model)), folder)
    publish(cast(Any, lean).inheritance, folder / FILE, report=report, say=say)


def _copy_companions(source: Path, folder: Path) -> None:
    """What stands beside a trained model and is needed to use it: how images are prepared, and the tokenizer."""
    for name in ("preprocessor_config.json", "preprocessing.json"):
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
    from leanformer.models.huggingface.folders import tokenizer_of

    if has_tokenizer(source):
        tokenizer_of(source).save_pretrained(folder)
