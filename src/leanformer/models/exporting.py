"""Models as one file that needs no leanformer: ONNX for ONNX Runtime, or PyTorch's own exported program (.pt2).

Batches of any size are allowed, and texts of any length where the model's code permits it. Before the file is put in
its place it is read again and run on other samples than it was made with: one that does not compute what the model
computes is not written.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import json
import logging
import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.utils._pytree import tree_leaves

from leanformer.models import families, preprocessing
from leanformer.models.base import Inputs
from leanformer.models.weights import from_pretrained

Format = Literal["onnx", "pt2"]
PACKAGES = ("onnx", "onnxscript", "onnxruntime")
"""What ONNX needs, beside torch: the extra `export`."""
TOLERANCE = 1e-4
"""The largest difference from the model, relative to its largest output: float32 with sums in another order."""
LIKE_TEXT = ("attention_mask", "token_type_ids", "position_ids")
"""Arguments that have the shape of `input_ids`."""
ABOUT = "leanformer.json"
"""Beside the program in a .pt2 file: the architecture, the preprocessing and the class names."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    path: Path
    format: Format
    inputs: Mapping[str, tuple[str | int, ...]]
    """The shape of each input: "batch" and "tokens" may be any number, other dimensions are fixed."""
    outputs: tuple[str, ...]
    difference: float
    """The largest difference from the model's own outputs, on other samples than it was exported with."""

    def __str__(self) -> str:
        shapes = ", ".join(f"{name} ({', '.join(map(str, shape))})" for name, shape in self.inputs.items())
        return (
            f"{self.path} takes {shapes} and gives {', '.join(self.outputs)}; "
            f"it differs from the model by at most {self.difference:.1e}"
        )


def export(
    model: nn.Module | str | Path,
    path: str | Path,
    format: Format | None = None,
    example: Mapping[str, Tensor] | None = None,
) -> Exported:
    """Write a model as a file that runs without leanformer.

    >>> lf.export("my-model", "model.onnx")
    >>> onnxruntime.InferenceSession("model.onnx").run(None, {"x": images})

    Args:
        model: the folder of a run or of a saved model; or any model, which is exported in evaluation mode and left as
            it was.
        path: where to; its folder is made if it does not exist.
        format: "onnx", or "pt2" for `torch.export.load`; by default what the path ends with.
        example: inputs by the names of the model's arguments, at least two samples. Models of the families have their
            own; other models need one. Inputs that are not in the example are not inputs of the file.

    Class names, preprocessing and the architecture go into the file's metadata.
    """
    path = Path(path)
    chosen = _format(path, format)
    model = from_pretrained(model) if isinstance(model, (str, Path)) else model
    given = _given(model, example)
    with _aside(path) as aside, _evaluated(model), _quiet():
        wrapped = _Plain(model, tuple(given.inputs))
        program = _traced(wrapped, given)
        if not _takes_other_lengths(program, wrapped, given):
            given = _of_one_length(model, given, longest=example is None)
            program = _traced(wrapped, given)
        shapes, outputs = _shapes(program, given), wrapped.outputs(given.inputs)
        if chosen == "onnx":
            _write_onnx(program, aside, shapes, outputs, _about(model))
        else:
            torch.export.save(program, aside, extra_files={ABOUT: json.dumps(_about(model))})
        run = _onnx_session(aside) if chosen == "onnx" else torch.export.load(aside).module()
        difference = _difference(run, wrapped, given.others(shapes))
        if not difference.small:
            raise ValueError(
                f"{path} is not written: as {chosen}, the model's outputs differ by {difference.worst:.2g}"
            )
        _move(aside, path)
    return Exported(path, chosen, shapes, outputs, difference.worst)


def _format(path: Path, given: str | None) -> Format:
    chosen = given or path.suffix.removeprefix(".")
    if chosen not in get_args(Format):
        ending = "" if given else "; give one, or a path that ends with .onnx or .pt2"
        raise ValueError(f"format must be onnx or pt2, got {chosen!r}{ending}")
    missing = [package for package in PACKAGES if importlib.util.find_spec(package) is None]
    if chosen == "onnx" and missing:
        raise ValueError(f'ONNX needs {", ".join(missing)}: pip install "leanformer[export]"')
    return cast(Format, chosen)


# What goes in


@dataclass(frozen=True)
class _Given:
    """Inputs by the names of the model's arguments, and which of their dimensions may change, by name."""

    inputs: Inputs
    dynamic: Mapping[str, Mapping[int, str]]

    @property
    def tokens(self) -> int | None:
        """The length of the texts, if it may change."""
        sizes = [
            self.inputs[name].shape[place]
            for name, places in self.dynamic.items()
            for place, what in places.items()
            if what == "tokens"
        ]
        return sizes[0] if sizes else None

    def cut(self, tokens: int) -> Inputs:
        """The inputs with shorter texts."""
        found = dict(self.inputs)
        for name, places in self.dynamic.items():
            for place, what in places.items():
                if what == "tokens":
                    found[name] = found[name].narrow(place, 0, tokens)
        return found

    def others(self, shapes: Mapping[str, tuple[str | int, ...]]) -> list[Inputs]:
        """Other inputs than these: samples in reverse, one more of them if their number is free, and shorter texts."""
        more = all(shape[0] == "batch" for shape in shapes.values())
        turned = {
            name: torch.cat([tensor.flip(0), tensor[:1]]) if more else tensor.flip(0)
            for name, tensor in self.inputs.items()
        }
        return [turned, *(self.cut(length) for length in _other_lengths(self.tokens))]


def _other_lengths(tokens: int | None) -> list[int]:
    return sorted({1, tokens // 2, tokens - 1} - {0}) if tokens is not None else []


def _given(model: nn.Module, example: Mapping[str, Tensor] | None) -> _Given:
    """What the user gives, or the family's own example."""
    if any(parameter.is_meta for parameter in model.parameters()):
        raise ValueError("this model has no weights: it was built on the meta device")
    known = _Given({}, {})
    try:
        known = _of_family(model)
    except ValueError as error:
        if example is None:
            raise ValueError(f"{error}; give example=, inputs by the names of the model's arguments") from error
    if example is None:
        return known
    if not example or not all(isinstance(tensor, Tensor) and tensor.ndim for tensor in example.values()):
        raise ValueError("example must be tensors by the names of the model's arguments, such as {'x': images}")
    if unknown := [name for name in example if name not in _arguments(model)]:
        raise ValueError(f"{type(model).__name__} has no argument {', '.join(unknown)}")
    if few := [name for name, tensor in example.items() if len(tensor) < 2]:
        raise ValueError(f"example: {', '.join(few)} needs at least 2 samples, so that their number can vary")
    like = {name: known.dynamic.get("input_ids", {}) for name in LIKE_TEXT}
    return _Given(dict(example), {name: {**like, **known.dynamic}.get(name) or {0: "batch"} for name in example})


def _of_family(model: nn.Module, tokens: int | None = None) -> _Given:
    """A family's own example. Its dimensions are those that change with the batch and with the length of a text."""
    architecture = families.describe(model)
    with torch.random.fork_rng(devices=[]):
        inputs, more = (families.example_inputs(architecture, batch, tokens) for batch in (2, 3))
        dynamic = {name: _changing(tensor, more[name], "batch") for name, tensor in inputs.items()}
        with contextlib.suppress(ValueError):  # images have no tokens
            short, long = (families.example_inputs(architecture, tokens=length) for length in (4, 5))
            for name, tensor in short.items():
                dynamic[name] |= _changing(tensor, long[name], "tokens")
    if "input_ids" in inputs and "attention_mask" in _arguments(model):
        mask = torch.ones_like(inputs["input_ids"])
        mask[0, -mask.shape[1] // 4 :] = 0  # the first text is shorter
        inputs["attention_mask"], dynamic["attention_mask"] = mask, dynamic["input_ids"]
    place = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    return _Given({name: tensor.to(place) for name, tensor in inputs.items()}, dynamic)


def _of_one_length(model: nn.Module, given: _Given, longest: bool) -> _Given:
    """Texts of a fixed length: the longest that the model takes, or that of the example."""
    if longest:
        given = _of_family(model, tokens=getattr(cast(Any, model).config, "max_position_embeddings", None))
    free = {name: {p: what for p, what in places.items() if what != "tokens"} for name, places in given.dynamic.items()}
    return _Given(given.inputs, free)


def _arguments(model: nn.Module) -> Sequence[str]:
    return list(inspect.signature(model.forward).parameters)


def _changing(one: Tensor, other: Tensor, name: str) -> dict[int, str]:
    sizes = zip(one.shape, other.shape, strict=True)
    return {place: name for place, (size, another) in enumerate(sizes) if size != another}


# The program


class _Plain(nn.Module):
    """A model whose forward takes exactly the named tensors and returns tensors: no caches, no classes of upstream."""

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model = model

        def forward(*given: Tensor, **named: Tensor) -> tuple[Tensor, ...]:
            return tuple(_tensors(model(**dict(zip(names, given, strict=False)), **named)).values())

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        cast(Any, forward).__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
        cast(Any, self).forward = forward

    def outputs(self, inputs: Inputs) -> tuple[str, ...]:
        """The names of what is returned."""
        with torch.no_grad():
            return tuple(_tensors(self.model(**inputs)))


def _tensors(output: Any) -> dict[str, Tensor]:
    """The tensors that a model returns, by name: scores or hidden states, but neither losses nor caches."""
    if isinstance(output, Mapping):
        kept = ("logits", "last_hidden_state", "pooler_output")
        found = {name: value for name in kept if isinstance(value := output.get(name), Tensor)}
        return {"logits": found["logits"]} if "logits" in found else found
    leaves = [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]
    return {"output" if len(leaves) == 1 else f"output_{place}": leaf for place, leaf in enumerate(leaves)}


def _traced(wrapped: _Plain, given: _Given) -> ExportedProgram:
    """The program of a model's forward. Dimensions that its code fixes are fixed in the program."""
    kind, inputs = type(wrapped.model).__name__, given.inputs
    free = {name: dict.fromkeys(given.dynamic[name], Dim.AUTO) for name in inputs}
    try:
        with torch.no_grad():
            if not wrapped.outputs(inputs):
                raise ValueError("it returns no tensors")
            return torch.export.export(wrapped, (), dict(inputs), dynamic_shapes=free, strict=False)
    except Exception as error:  # code that cannot be traced fails in a dozen ways, each with its own class
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ValueError(f"{kind} cannot be exported: {reason.strip()}") from error


def _takes_other_lengths(program: ExportedProgram, wrapped: _Plain, given: _Given) -> bool:
    """Whether a program is the model for other lengths too; code that asks for the length may take another way."""
    run = program.module()
    try:
        return all(_difference(run, wrapped, [given.cut(n)]).small for n in _other_lengths(given.tokens))
    except (AssertionError, RuntimeError):  # a guard that the tracer put there
        return False


def _shapes(program: ExportedProgram, given: _Given) -> dict[str, tuple[str | int, ...]]:
    """The shape of each input as the program takes it: names for what may change, numbers for what may not."""
    taken = {node.name: node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder"}
    return {
        name: tuple(
            int(str(size)) if str(size).isdigit() else given.dynamic[name][place]  # a symbol may stand for one number
            for place, size in enumerate(taken[name])
        )
        for name in given.inputs
    }


def _write_onnx(
    program: ExportedProgram,
    path: Path,
    shapes: Mapping[str, tuple[str | int, ...]],
    outputs: Sequence[str],
    about: Mapping[str, Any],
) -> None:
    try:
        made = torch.onnx.export(
            program, dynamo=True, verbose=False, input_names=list(shapes), output_names=list(outputs)
        )
    except Exception as error:  # the converter has no common class of errors
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"this model cannot be converted to ONNX: {reason}") from error
    made = cast(Any, made)
    for value in made.model.graph.inputs:
        renamed = {
            size: name
            for size, name in zip(value.shape, shapes[value.name], strict=True)
            if isinstance(name, str) and str(size) != name
        }
        made.rename_axes(renamed)
    made.model.metadata_props.update({key: json.dumps(value) for key, value in about.items()})
    made.save(path)


def _about(model: nn.Module) -> dict[str, Any]:
    """What a user of the file needs to know of the model, where the model says it."""
    found: dict[str, Any] = {}
    with contextlib.suppress(ValueError):  # a model of no family
        found["architecture"] = families.describe(model).to_dict()
    if stated := preprocessing.stated_by(model):
        found["preprocessing"] = stated
    return found


# The check


@dataclass(frozen=True)
class _Difference:
    worst: float
    largest: float
    """Of the model's outputs."""

    @property
    def small(self) -> bool:
        """Whether it is no more than rounding."""
        return self.worst <= TOLERANCE * max(1.0, self.largest)


def _difference(run: Callable[..., Sequence[Tensor]], wrapped: _Plain, given: Sequence[Inputs]) -> _Difference:
    """How far a program is from the model; infinitely if one of them gives numbers where the other does not."""
    worst = largest = 0.0
    for inputs in given:
        with torch.no_grad():
            for outputs in zip(run(**inputs), wrapped(**inputs), strict=True):
                ours, theirs = (_without_padding(output.cpu(), inputs) for output in outputs)
                gap = (ours.double() - theirs.double()).abs().nan_to_num(nan=math.inf)
                worst = max(worst, float(gap.masked_fill(ours.isnan() & theirs.isnan(), 0).max()))
                largest = max(largest, float(theirs.nan_to_num().abs().max()))
    return _Difference(worst, largest)


def _without_padding(output: Tensor, inputs: Inputs) -> Tensor:
    """What a model says of padding means nothing: with windows, such a token attends to none, and kernels differ."""
    mask = inputs.get("attention_mask")
    if mask is None or output.shape[:2] != mask.shape:
        return output
    return output[mask.cpu().bool()]


def _onnx_session(file: Path) -> Callable[..., list[Tensor]]:
    import onnxruntime

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])

    def run(**inputs: Tensor) -> list[Tensor]:
        given = {name: tensor.cpu().numpy() for name, tensor in inputs.items()}
        return [torch.from_numpy(array) for array in session.run(None, given)]

    return run


# Surroundings


@contextlib.contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """A place for the file in a folder beside its own, which is gone afterwards; found before the work, or refused."""
    try:
        if path.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(dir=path.parent, prefix=".export-")
    except (OSError, ValueError) as error:  # ValueError: the name holds a null character
        raise ValueError(f"{path} cannot be written to: {getattr(error, 'strerror', None) or error}") from error
    with folder:
        yield Path(folder.name) / path.name


def _move(aside: Path, path: Path) -> None:
    """Put the file in its place, after its weights where they are a file of their own (those of 2 GB and more)."""
    for part in sorted(aside.parent.iterdir(), key=lambda part: part == aside):
        os.replace(part, path.parent / part.name)


@contextlib.contextmanager
def _evaluated(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without caches; afterwards the model is as it was."""
    training = {module: module.training for module in model.modules()}
    config = getattr(model, "config", None)
    cached = getattr(config, "use_cache", None)
    model.eval()
    if cached:
        cast(Any, config).use_cache = False
    try:
        yield
    finally:
        for module, was in training.items():
            module.training = was
        if cached:
            cast(Any, config).use_cache = cached


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporters' notes on their own deprecations."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
