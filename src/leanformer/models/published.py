"""What "Leaner Transformers: More Heads, Less Depth" prints, as data, and how each printed count is read.

Figures are written as the paper prints them, so that their digits say how exact they are. Nothing here is a count of
ours: those come from built models, in `leanformer.paper.scorecard`. Importing this module imports no PyTorch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from types import MappingProxyType
from typing import Any, Literal

from leanformer.architecture import REGIMES, Architecture, Keep

Numbers = int | tuple[int, ...]
Variant = Literal["original", "lean", "control"]


@dataclass(frozen=True)
class PrintedCount:
    """A parameter count as printed: `PrintedCount("86.6", "M")`."""

    digits: str
    unit: Literal["M", "k"]

    def agrees(self, params: int) -> bool:
        """Whether a count, rounded or cut off, gives the printed digits."""
        printed = Decimal(self.digits)
        scaled = Decimal(params) / {"M": 10**6, "k": 10**3}[self.unit]
        return any(scaled.quantize(printed, rounding) == printed for rounding in (ROUND_HALF_UP, ROUND_DOWN))

    def __str__(self) -> str:
        return f"{self.digits} {self.unit}"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Sizes other than the printed ones, with which the printed count comes out."""

    depth: Numbers | None = None
    heads: Numbers | None = None
    mlp_dim: Numbers | None = None
    count_only: bool = False
    """The printed count belongs to another model; the model that was trained is as printed."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table of the paper: a model, its printed shape and figures, and how we read it."""

    table: str
    model: str
    variant: Variant
    base: str
    """The upstream model that it starts from, as `leanformer.create` names it."""
    depth: Numbers
    heads: Numbers
    mlp_dim: Numbers | None = None
    """Printed MLP dimension; None where the paper prints none."""
    keep: Keep = "head_dim"
    """The regime, which the paper does not state."""
    reading: Reading | None = None
    """How the shape must differ from print to explain the printed count; None where it holds as printed."""
    params: PrintedCount | None = None
    results: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Other printed figures: top-1 and top-5 in percent, memory in GB, GLUE, validation loss, accuracy in percent."""
    reductions: Mapping[str, int] = field(default_factory=dict, hash=False)
    """What is printed as saved beside the original, in percent, of "params" and "memory_gb"; "same" is 0."""
    note: str = ""
    lean_name: str | None = None
    """The name under which `leanformer.create` knows the model; for images, timm too."""

    @property
    def vision(self) -> bool:
        return self.table in ("Tab. 4", "Tab. 5")

    def architecture(self, base: Architecture, as_printed: bool = False) -> Architecture:
        """The row's architecture, by its reading or strictly as printed."""
        reading = Reading() if as_printed or self.reading is None else self.reading
        heads = reading.heads or self.heads
        return base.resized(
            depth=reading.depth or self.depth,
            # Heads that stay keep their size, which need not be a share of the width.
            heads=None if heads == _unpacked([stage.heads for stage in base.stages]) else heads,
            mlp_dim=reading.mlp_dim or self.mlp_dim,
            keep=self.keep,
        )

    def design(self, base: Architecture) -> Architecture:
        """The model that the row is about, to build and train."""
        return self.architecture(base, as_printed=self.reading is not None and self.reading.count_only)

    def explain(self, architecture: Architecture) -> str:
        """The reading in words, for an architecture made by it."""
        words = []
        if self.variant == "lean":
            sizes = _unpacked([stage.head_dim for stage in architecture.stages])
            words.append(f"{REGIMES[self.keep]}, head_dim {_show(sizes)}")
        for word, printed, read in (
            ("layers", self.depth, self.reading and self.reading.depth),
            ("heads", self.heads, self.reading and self.reading.heads),
            ("MLP", self.mlp_dim, self.reading and self.reading.mlp_dim),
        ):
            if read is not None and read != printed:
                words.append(f"{word} {_show(read)}, printed {_show(printed)}")
        return "; ".join([*words, self.note] if self.note else words) or "as upstream"


def _unpacked(numbers: Sequence[int]) -> Numbers:
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def _show(numbers: Any) -> str:
    return str(list(numbers)) if isinstance(numbers, tuple) else str(numbers)


def _millions(digits: str) -> PrintedCount:
    return PrintedCount(digits, "M")


def _vision(
    table: str, model: str, base: str, original: dict[str, Any], lean: dict[str, Any], lean_name: str = ""
) -> list[Row]:
    """A pair of rows of Tables 4 and 5; `figures` are top-1, top-5 and GB of memory."""

    def row(variant: Variant, figures: tuple[float, float, float], **shape: Any) -> Row:
        results = dict(zip(("top1", "top5", "memory_gb"), figures, strict=True))
        return Row(table=table, model=model, variant=variant, base=base, results=results, **shape)

    return [row("original", **original), row("lean", lean_name=lean_name or f"lean_{base}", **lean)]


VIT_B = dict(depth=12, heads=12, mlp_dim=3072, params=_millions("86.6"))
VIT_B_LEAN = dict(depth=7, heads=16, mlp_dim=1536, params=_millions("40.1"))
VIT_L = dict(depth=24, heads=16, mlp_dim=4096, params=_millions("203.6"), reading=Reading(depth=16))
VIT_L_LEAN = dict(depth=8, heads=30, mlp_dim=2048, params=_millions("98.6"))
VOLO_DEPTHS, VOLO_LEAN_DEPTHS = (8, 8, 16, 4), (4, 4, 8, 2)
VOLO_D4_RATIO_3 = Reading(mlp_dim=(1152, 2304, 2304, 2304))
DAVIT_DEPTHS, DAVIT_LEAN_DEPTHS = (1, 1, 9, 1), (1, 1, 5, 1)

VISION: tuple[Row, ...] = (
    *_vision(
        "Tab. 4",
        "ViT-B",
        "vit_base_patch16_224",
        VIT_B | dict(figures=(80.1, 94.2, 178.4)),
        VIT_B_LEAN | dict(figures=(80.4, 94.9, 101.6)),
    ),
    *_vision(
        "Tab. 4",
        "DeiT-B",
        "deit_base_patch16_224",
        VIT_B | dict(figures=(80.4, 95.1, 178.4)),
        VIT_B_LEAN | dict(figures=(80.8, 95.3, 101.6)),
    ),
    *_vision(
        "Tab. 4",
        "XCiT-M",
        "xcit_medium_24_p16_224",
        dict(depth=24, heads=8, mlp_dim=2048, params=_millions("84.4"), figures=(81.4, 95.5, 320.8)),
        dict(
            depth=12,
            heads=16,
            mlp_dim=2048,
            params=_millions("59.0"),
            figures=(81.7, 95.6, 196),
            note="class attention keeps its own",
        ),
    ),
    *_vision(
        "Tab. 4",
        "TNT-B",
        "tnt_b_patch16_224",
        dict(depth=12, heads=10, mlp_dim=2560, params=_millions("65.4"), figures=(82.3, 95.7, 266.4)),
        dict(
            depth=8,
            heads=16,
            mlp_dim=2560,
            keep="width",
            params=_millions("30.9"),
            figures=(82.3, 95.8, 200.8),
            reading=Reading(mlp_dim=1280),
        ),
    ),
    *_vision(
        "Tab. 4",
        "VOLO-d3",
        "volo_d3_224",
        dict(
            depth=VOLO_DEPTHS,
            heads=(8, 16, 16, 16),
            mlp_dim=(1024, 2048, 2048, 2048),
            params=_millions("86"),
            figures=(82.6, 95.6, 209.2),
            reading=Reading(mlp_dim=(768, 1536, 1536, 1536)),
        ),
        dict(
            depth=VOLO_LEAN_DEPTHS,
            heads=(16, 32, 32, 32),
            mlp_dim=(768, 1536, 1536, 1536),
            keep="width",
            params=_millions("47.5"),
            figures=(82.6, 95.7, 144.8),
        ),
    ),
    *_vision(
        "Tab. 4",
        "DaViT-B",
        "davit_base",
        dict(
            depth=DAVIT_DEPTHS,
            heads=(4, 8, 16, 32),
            mlp_dim=(512, 1024, 2048, 4096),
            params=_millions("88.0"),
            figures=(83.3, 96.0, 294.4),
        ),
        dict(
            depth=DAVIT_LEAN_DEPTHS,
            heads=(4, 8, 32, 32),
            mlp_dim=(512, 1024, 2048, 4096),
            keep="width",
            params=_millions("62.0"),
            figures=(83.5, 96.1, 233.6),
            note="closest reading found",
        ),
    ),
    *_vision(
        "Tab. 5",
        "ViT-L",
        "vit_large_patch16_224",
        VIT_L | dict(figures=(80.6, 94.4, 200.0)),
        VIT_L_LEAN | dict(figures=(81.1, 95.1, 115.2)),
    ),
    *_vision(
        "Tab. 5",
        "DeiT-L",
        "vit_large_patch16_224",
        VIT_L | dict(figures=(81.5, 95.3, 200.0)),
        VIT_L_LEAN | dict(figures=(81.8, 95.4, 115.2)),
        lean_name="lean_deit_large_patch16_224",
    ),
    *_vision(
        "Tab. 5",
        "XCiT-L",
        "xcit_large_24_p16_224",
        dict(depth=24, heads=16, mlp_dim=3072, params=_millions("189.1"), figures=(82.1, 95.9, 275.2)),
        dict(depth=12, heads=24, mlp_dim=3072, keep="width", params=_millions("103.8"), figures=(82.4, 95.9, 160.8)),
    ),
    *_vision(
        "Tab. 5",
        "VOLO-d4",
        "volo_d4_224",
        dict(
            depth=VOLO_DEPTHS,
            heads=(12, 16, 16, 16),
            mlp_dim=(1536, 3072, 3072, 3072),
            params=_millions("193.0"),
            figures=(83.0, 96.1, 294.4),
            reading=VOLO_D4_RATIO_3,
        ),
        dict(
            depth=VOLO_LEAN_DEPTHS,
            heads=(24, 32, 32, 32),
            mlp_dim=(768, 1536, 1536, 1536),
            keep="width",
            params=_millions("105.6"),
            figures=(83.1, 96.2, 188.8),
            reading=VOLO_D4_RATIO_3,
        ),
    ),
    *_vision(
        "Tab. 5",
        "DaViT-L",
        "davit_large",
        dict(
            depth=DAVIT_DEPTHS,
            heads=(6, 12, 24, 48),
            mlp_dim=(768, 1536, 3072, 6144),
            params=_millions("196.8"),
            figures=(83.6, 96.5, 238.4),
        ),
        dict(
            depth=DAVIT_LEAN_DEPTHS,
            heads=(6, 12, 48, 48),
            mlp_dim=(768, 1536, 3072, 6144),
            keep="width",
            params=_millions("140.0"),
            figures=(83.6, 96.6, 186.4),
        ),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Table6:
    """Table 6: how every image model was trained."""

    batch: Mapping[str, int] = field(default_factory=lambda: {"Tab. 4": 1024, "Tab. 5": 512}, hash=False)
    """By the table of the model: base and large."""
    epochs: int = 300
    lr: float = 3e-3
    weight_decay: float = 0.3
    label_smoothing: float = 0.1
    warmup_epochs: int = 20
    warmup_lr: float = 1e-5
    mixup: float = 0.8
    cutmix: float = 1.0
    drop_path: float = 0.1
    rand_augment: tuple[int, float] = (9, 0.5)
    """Magnitude, and its deviation, by timm's reading of the two numbers."""


TABLE_6 = Table6()

FIGURE_3: tuple[Row, ...] = tuple(
    Row(
        table="Fig. 3",
        model="ViT-B, fewer layers",
        variant="lean",
        base="vit_base_patch16_224",
        depth=8,
        heads=heads,
        params=_millions(digits),
        note=f"{end} end of the printed range",
    )
    for heads, digits, end in ((14, "61.2", "lower"), (18, "67.4", "upper"))
)

GLUE_TASKS = ("mnli", "sst2", "stsb", "rte", "qnli", "qqp", "mrpc", "cola")
BERT_GLUE = dict(zip(GLUE_TASKS, (83.8, 92.3, 86.3, 55.1, 90.1, 87.3, 85.0, 48.9), strict=True))
BERT_LEAN_GLUE = dict(zip(GLUE_TASKS, (83.7, 92.3, 86.3, 55.3, 90.0, 87.3, 85.2, 48.9), strict=True))

_BERT: dict[str, Any] = dict(table="Tab. 1", model="Crammed BERT", base="crammed-bert")
_GPT: dict[str, Any] = dict(table="Tab. 2", model="GPT-2, TinyStories", base="tinystories-gpt2")
LANGUAGE: tuple[Row, ...] = (
    Row(
        **_BERT,
        variant="original",
        depth=16,
        heads=12,
        params=_millions("119"),
        results={"glue": 78.6, "memory_gb": 13.8, **BERT_GLUE},
    ),
    Row(
        **_BERT,
        variant="lean",
        depth=10,
        heads=24,
        keep="width",
        params=_millions("84"),
        results={"glue": 78.6, "memory_gb": 10.3, **BERT_LEAN_GLUE},
        reductions={"params": 29, "memory_gb": 25},
        lean_name="lean-crammed-bert",
    ),
    Row(**_BERT, variant="control", depth=10, heads=12, note="depth only; the paper has none"),
    Row(
        **_GPT,
        variant="original",
        depth=12,
        heads=12,
        params=_millions("89"),
        results={"validation_loss": 2.47, "memory_gb": 12.8},
    ),
    Row(
        **_GPT,
        variant="lean",
        depth=4,
        heads=16,
        keep="width",
        params=_millions("64"),
        results={"validation_loss": 2.41, "memory_gb": 9.7},
        reductions={"params": 28, "memory_gb": 24},
        lean_name="lean-tinystories-gpt2",
    ),
    Row(**_GPT, variant="control", depth=4, heads=12, note="depth only; the paper has none"),
)


def _arena(
    task: str,
    name: str,
    accuracy: tuple[float, float],
    original: str | None,
    lean: str | None,
    saved: int,
    read_as: tuple[int, int] | None = None,
) -> list[Row]:
    """The rows of Table 3 for one task and the rest of its grid; counts are printed for (2, 2) and (1, 4) at most."""
    shared: dict[str, Any] = dict(table="Tab. 3", model=f"Nyströmformer, {task}", base=f"nystromformer-{name}")
    reading = Reading(depth=read_as[0], heads=read_as[1], count_only=True) if read_as else None

    def count(digits: str | None) -> PrintedCount | None:
        return PrintedCount(digits, "k") if digits else None

    return [
        Row(
            **shared,
            variant="original",
            depth=2,
            heads=2,
            params=count(original),
            reading=reading,
            results={"accuracy": accuracy[0]},
        ),
        Row(
            **shared,
            variant="lean",
            depth=1,
            heads=4,
            params=count(lean),
            reading=reading,
            results={"accuracy": accuracy[1]},
            reductions={"params": saved},
            lean_name=f"lean-nystromformer-{name}",
        ),
        *(Row(**shared, variant="control", depth=1, heads=heads, note="not in Table 3") for heads in (2, 6, 8)),
    ]


LONG_RANGE_ARENA: tuple[Row, ...] = (
    *_arena("ListOps", "listops", (36.79, 37.13), None, "192.9", 9),
    *_arena("text", "text", (62.95, 63.82), "371.2", None, 5),
    *_arena("retrieval", "retrieval", (79.3, 79.5), "394.8", "394.8", 0, read_as=(1, 6)),
    *_arena("image", "image", (37.2, 38.2), "191.2", "191.2", 0, read_as=(1, 8)),
    *_arena("Pathfinder", "pathfinder", (69.8, 69.9), "190.2", "190.2", 0, read_as=(1, 8)),
)

FARTHEST_ERRORS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {"full rank": (0.015, 0.007, 0.002), "half rank": (0.69, 0.43, 0.31)}
)
"""Read off Figure 1 of "Quality over Quantity": one layer, 64 dimensions, 16 points; 1, 8 and 64 groups."""

FARTHEST_LONG_ERRORS: Mapping[str, float] = MappingProxyType({"full rank": 0.04, "half rank": 0.54})
"""Read off its study of length: two layers, 64 dimensions, 64 groups, 256 points."""

ROWS: tuple[Row, ...] = (*LANGUAGE, *LONG_RANGE_ARENA, *FIGURE_3, *VISION)

LEAN_MODELS: Mapping[str, Row] = MappingProxyType({row.lean_name: row for row in ROWS if row.lean_name})
"""The paper's lean models by the name that creates them."""
