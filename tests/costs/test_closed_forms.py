"""The closed form against built and traced models: parameters and MACs exactly, activations to the byte."""

import random
from dataclasses import replace

import pytest
from torch.utils.flop_counter import FlopCounterMode

from leanformer.architecture import Architecture
from leanformer.costs.closed_forms import Setting, formula
from leanformer.costs.setting import STATE_BYTES
from leanformer.costs.steps import peak_memory, traced
from leanformer.models import families
from support.amount import COMPLETE, in_turn, some
from support.architectures import SIMILAR, SMALL


def random_design(key: str, generator: random.Random) -> Architecture:
    base, stages = SMALL[key], len(SMALL[key].stages)

    def each(choices) -> list[int]:
        return [generator.choice(choices) for _ in range(stages)]

    heads = [1, 2, 4, 8, 16] if key == "llama" else list(range(2, 20, 2))
    sizes = {"depth": range(1, 4), "heads": heads, "head_dim": range(2, 40, 2), "mlp_dim": range(2, 200, 2)}
    design = base.resized(**{size: each(values) for size, values in sizes.items()})
    if stages == 1 and key not in ("llama", "qwen3") and generator.random() < 0.3:
        schedule = [generator.choice(heads) for _ in range(generator.randint(1, 4))]
        design = design.resized(depth=len(schedule), heads=schedule)
    return design


@pytest.mark.parametrize("key", SMALL)
def test_parameters_equal_the_built_models(key: str) -> None:
    """Random designs of every family: 3,030 of them in a complete run."""
    generator = random.Random(0)
    closed = formula(SMALL[key])
    for _ in range((50 if len(SMALL[key].stages) > 1 else 160) if COMPLETE else 3 if key in SIMILAR else 8):
        design = random_design(key, generator)
        built = sum(p.numel() for p in families.build(design, device="meta").parameters())
        counted = closed.parameters(design)
        assert counted.total == built, design
        assert sum(counted.by_stage) + counted.embedding + counted.head <= built
        assert min(counted.attention, counted.mlp) > 0
        assert (
            key == "point-encoder" or min(counted.embedding, counted.head) > 0
        )  # points are tokens already, and stay so


SETTINGS = {
    "explicit": Setting(batch=5, attention="explicit"),
    "checkpointing": Setting(batch=3, checkpointing=True),
    "bfloat16": Setting(batch=4, precision="bfloat16"),
}


OTHERS = [key for key in SMALL if COMPLETE or len(SMALL[key].stages) == 1]
"""Formulas of several stages take longest to fit: by default they are tested with fused attention only."""


@pytest.mark.parametrize(
    ("key", "word"),
    [
        *((key, "fused") for key in SMALL if key not in SIMILAR),
        *((key, "fused") for key in some(SIMILAR, 2)),
        *in_turn(some(OTHERS, 6), list(SETTINGS)),
    ],
)
def test_macs_and_activations_equal_the_traced(key: str, word: str) -> None:
    """Every family with fused attention, and every other setting with some of them."""
    setting = SETTINGS.get(word, Setting(batch=3))
    generator = random.Random(1)
    closed = formula(SMALL[key], setting)
    for _ in range(3 if COMPLETE else 2):
        design = random_design(key, generator)
        cost, real = closed.cost(design, setting), traced(design, setting)
        assert cost.forward_macs == real.forward_macs
        assert cost.saved_bytes == real.saved_bytes, design


@pytest.mark.parametrize("key", SMALL)
def test_macs_equal_pytorchs_own_counter(key: str) -> None:
    """On meta with attention spelt out, as PyTorch does it there by itself."""
    design, setting = SMALL[key], Setting(batch=2)
    family = families.family(design.family)
    model = family.build(design, device="meta").train()
    inputs = {name: t.to("meta") for name, t in families.example_inputs(design, 2).items()}
    with family.configure(model, "fused", False), FlopCounterMode(display=False) as counter:
        family.loss(model, inputs)
    ours = formula(design, setting).cost(design, setting).forward_macs
    assert ours == pytest.approx(counter.get_total_flops() / 2, rel=1e-3)


def test_full_size_counts() -> None:
    vit = families.read("vit_base_patch16_224")
    closed, setting = formula(vit), Setting(batch=1)
    assert closed.parameters(vit).total == 86_567_656
    assert closed.parameters(vit.resized(depth=7, heads=16, mlp_dim=1536)).total == 40_112_872
    assert closed.cost(vit, setting).forward_macs == pytest.approx(17.56e9, rel=1e-3)  # the figure known for ViT-B/16
    assert closed.tokens == (197,)
    parts = closed.parameters(vit)
    assert parts.attention == 12 * (4 * 768 * 768 + 4 * 768)
    assert parts.mlp == 12 * (2 * 768 * 3072 + 3072 + 768)
    assert parts.head == 768 * 1000 + 1000 + 2 * 768


@pytest.mark.parametrize("head_dim", [10**6 + 2, 10**9 + 2, 2 * 10**9 + 2])
def test_counts_are_exact_at_any_size(head_dim: int) -> None:
    """Where floating-point coefficients would be off by one or more."""
    design = SMALL["vit"].resized(depth=3, heads=7, head_dim=head_dim)
    width, inner = design.stages[0].width, 7 * head_dim
    parts = formula(SMALL["vit"]).parameters(design)
    assert parts.attention == 3 * (4 * width * inner + 3 * inner + width)
    if head_dim < 10**7:
        assert parts.total == sum(p.numel() for p in families.build(design, device="meta").parameters())


def test_a_formula_refuses_other_widths_and_options() -> None:
    vit = SMALL["vit"]
    closed = formula(vit)
    assert closed.widths == (48,)
    closed.parameters(vit.resized(depth=4, heads=[4, 8, 8, 8]))  # a schedule has several stages of one width
    for count in (closed.parameters, lambda design: closed.cost(design, Setting())):
        with pytest.raises(ValueError, match=r"for vit_tiny_patch16_224 of width 48, got widths \[96\]: use formula\("):
            count(vit.resized(width=96))
        with pytest.raises(ValueError, match=r"with options .*'num_classes': 10.*, got .*'num_classes': 11"):
            count(vit.with_options(num_classes=11))
        with pytest.raises(ValueError, match="got deit_tiny_patch16_224 with options"):
            count(replace(vit, name="deit_tiny_patch16_224"))
    volo = SMALL["volo"]
    with pytest.raises(ValueError, match=r"of width 16 and 32, got widths \[32, 32, 32, 32\]"):
        formula(volo).parameters(volo.resized(width=32))


def test_longer_texts_cost_more() -> None:
    """Projections grow with the tokens, attention's products with their square."""
    gpt = families.read("gpt2").resized(depth=1)
    short, long = (formula(gpt, Setting(batch=1, tokens=n)).cost(gpt, Setting(batch=1, tokens=n)) for n in (256, 1024))
    stage, vocabulary = gpt.stages[0], 50257
    linear = 4 * stage.width * stage.inner_width + 2 * stage.width * stage.mlp_dim + stage.width * vocabulary
    assert short.forward_macs == 256 * linear + 2 * 256**2 * stage.inner_width
    assert long.forward_macs == 1024 * linear + 2 * 1024**2 * stage.inner_width
    assert formula(gpt, Setting(tokens=1024)).tokens == (1024,)
    with pytest.raises(ValueError, match="takes at most 1024 tokens, got a sequence of 2000"):
        formula(gpt, Setting(tokens=2000))
    with pytest.raises(ValueError, match="takes images, whose size is the option img_size"):
        formula(SMALL["vit"], Setting(tokens=5))


def test_tokens_of_every_stage() -> None:
    assert formula(SMALL["volo"]).tokens == (64, 16, 16, 16)
    assert formula(SMALL["davit"]).tokens == (49, 49, 49, 49)
    if COMPLETE:
        assert formula(families.read("volo_d1_224")).tokens == (784, 196, 196, 196)
        assert formula(families.read("davit_tiny")).tokens == (49, 49, 49, 49)


def test_memory_adds_up() -> None:
    design = SMALL["vit"]
    for optimizer, state in STATE_BYTES.items():
        setting = Setting(batch=256, optimizer=optimizer)
        cost = formula(design, setting).cost(design, setting)
        assert cost.memory_bytes >= cost.params.total * (4 + state) + cost.saved_bytes
        assert cost.memory_bytes == pytest.approx(peak_memory(design, setting), rel=0.1)
    small = Setting(batch=1)
    cost = formula(design, small).cost(design, small)
    assert cost.memory_bytes == cost.params.total * 16  # gradients outweigh the activations of one sample


def test_the_closed_form_is_cheap() -> None:
    """Not a timed test: after the first use no model is built any more."""
    closed = formula(SMALL["vit"])
    built = families.family("vit").build
    try:
        families.family("vit").build = None  # type: ignore[method-assign]
        assert formula(SMALL["vit"].resized(depth=9, heads=3)) is closed
        closed.cost(SMALL["vit"].resized(depth=40), Setting())
    finally:
        families.family("vit").build = built  # type: ignore[method-assign]


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match="batch must be at least 1, got 0"):
        Setting(batch=0)
    with pytest.raises(ValueError, match="optimizer must be one of adamw, sgd, none, got 'lion'"):
        Setting(optimizer="lion")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="precision must be one of float32, bfloat16, got 'float64'"):
        Setting(precision="float64")  # type: ignore[arg-type]
