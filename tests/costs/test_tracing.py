"""A step traced on the meta device against the same step with real tensors on the CPU."""

import threading

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from leanformer.costs import tracing
from leanformer.costs.closed_forms import formula
from leanformer.costs.setting import Setting
from leanformer.costs.steps import traced
from leanformer.costs.tracing import CudaAutocast, trace
from leanformer.data.order import Order, Share
from leanformer.models import families
from leanformer.tasks import ImageClasses, ListOps, MaskedToken, NextToken
from support.amount import in_turn
from support.architectures import SMALL

KERNELS = [(attention, checkpointing) for checkpointing in (False, True) for attention in ("fused", "explicit")]


def without_dropout(model: nn.Module) -> nn.Module:
    """PyTorch's fused kernel for the CPU does not drop; with dropout on it falls back to explicit products."""
    model.train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in ("dropout", "attn_dropout", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return model


@pytest.mark.parametrize(("key", "kernel"), in_turn(list(SMALL), KERNELS))
def test_meta_equals_a_real_step(key: str, kernel: tuple[str, bool]) -> None:
    attention, checkpointing = kernel
    architecture = SMALL[key].resized(heads=[2 * stage.heads for stage in SMALL[key].stages])
    family, inputs = families.family(architecture.family), families.example_inputs(architecture, batch=4)
    traces = []
    for device in ("cpu", "meta"):
        model = without_dropout(family.build(architecture, device=device))
        with family.configure(model, attention, checkpointing):
            placed = {name: tensor.to(device) for name, tensor in inputs.items()}
            traces.append(trace(model, placed, family.loss))
    real, meta = traces
    assert meta.saved_bytes == real.saved_bytes
    assert meta.peak_bytes == pytest.approx(real.peak_bytes, rel=0.02)
    assert (meta.forward_macs, meta.step_macs) == (real.forward_macs, real.step_macs)
    assert all(parameter.grad is None for parameter in model.parameters())


def allocated_peak(model: nn.Module, inputs: dict) -> int:
    """Peak of PyTorch's own CPU allocator during a step, as its profiler logs every allocation."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        loss = families.of(model).loss(model, inputs)
        loss.backward()
        del loss
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak


@pytest.mark.parametrize("key", SMALL)
def test_the_peak_is_the_allocators_but_for_scratch_space(key: str) -> None:
    """Kernels allocate and free scratch space inside themselves, which a trace cannot see: most in small models."""
    architecture = SMALL[key]
    family, inputs = families.family(architecture.family), families.example_inputs(architecture, batch=8)
    real, meta = (without_dropout(family.build(architecture, device=device)) for device in ("cpu", "meta"))
    with family.configure(meta, "fused", False):
        traced = trace(meta, {name: tensor.to("meta") for name, tensor in inputs.items()}, family.loss)
    with family.configure(real, "fused", False):
        measured = allocated_peak(real, inputs)
    assert traced.peak_bytes == pytest.approx(measured, rel=0.15)


def test_attention_products_are_counted() -> None:
    """A ViT's MACs by hand: patch embedding, projections, both attention products, MLP, head."""
    architecture = SMALL["vit"]
    stage, tokens, batch = architecture.stages[0], 17, 4
    model = families.build(architecture, device="meta").train()
    inputs = {name: t.to("meta") for name, t in families.example_inputs(architecture, batch).items()}
    per_layer = tokens * (4 * stage.width * stage.inner_width + 2 * stage.width * stage.mlp_dim)
    per_layer += 2 * tokens * tokens * stage.inner_width
    patches = 16 * stage.width * 3 * 8 * 8
    assert trace(model, inputs, families.of(model).loss).forward_macs == batch * (
        patches + stage.depth * per_layer + stage.width * 10
    )


def test_explicit_attention_keeps_the_weights() -> None:
    architecture, batch = SMALL["bert"], 4
    family = families.family("bert")
    inputs = {name: t.to("meta") for name, t in families.example_inputs(architecture, batch).items()}
    saved = {}
    for attention in ("fused", "explicit"):
        model = without_dropout(family.build(architecture, device="meta"))
        with family.configure(model, attention, False):
            saved[attention] = trace(model, inputs, families.of(model).loss).saved_bytes
    weights = batch * architecture.depth * architecture.stages[0].heads * 128 * 128 * 4
    assert saved["explicit"] - saved["fused"] > 0.9 * weights


def test_checkpointing_saves_memory_and_costs_a_forward() -> None:
    architecture = SMALL["vit"].resized(depth=6)
    family = families.family("vit")
    inputs = {name: t.to("meta") for name, t in families.example_inputs(architecture, 16).items()}
    traces = {}
    for checkpointing in (False, True):
        model = family.build(architecture, device="meta").train()
        with family.configure(model, "fused", checkpointing):
            traces[checkpointing] = trace(model, inputs, families.of(model).loss)
    assert traces[True].peak_bytes < traces[False].peak_bytes / 2
    assert traces[True].step_macs > 1.2 * traces[False].step_macs


@pytest.mark.parametrize("checkpointing", [False, True])
def test_mixed_precision_halves_what_products_keep(checkpointing: bool) -> None:
    architecture = SMALL["vit"].resized(depth=4)
    family = families.family("vit")
    inputs = {name: t.to("meta") for name, t in families.example_inputs(architecture, 64).items()}
    model = family.build(architecture, device="meta").train()
    with family.configure(model, "fused", checkpointing):
        full, mixed = (trace(model, inputs, family.loss, precision=precision) for precision in ("float32", "bfloat16"))
    if checkpointing:  # what is kept is the residual stream, which stays in float32
        assert mixed.saved_bytes == pytest.approx(full.saved_bytes, rel=0.3)
    else:
        assert 0.45 * full.saved_bytes < mixed.saved_bytes < 0.95 * full.saved_bytes
    assert not any("forward" in vars(module) for module in model.modules())


def test_autocast_casts_as_cuda_does() -> None:
    linear, norm, x = nn.Linear(4, 4, device="meta"), nn.LayerNorm(4, device="meta"), torch.randn(2, 4, device="meta")
    with CudaAutocast():
        y = linear(x)
        assert y.dtype == torch.bfloat16
        assert norm(y).dtype == torch.float32
        assert nn.functional.gelu(y).dtype == torch.bfloat16
        assert (y @ y.T).softmax(-1).dtype == torch.float32
    assert linear(x).dtype == torch.float32


def test_fused_attention_is_given_back() -> None:
    before = nn.functional.scaled_dot_product_attention
    model = families.build(SMALL["vit"], device="meta")
    with pytest.raises(TypeError):
        trace(model, {"nonsense": torch.ones(1)}, families.of(model).loss)
    assert nn.functional.scaled_dot_product_attention is before


def test_traces_inside_and_beside_each_other_give_it_back() -> None:
    """Nested, and by two threads that leave in the order in which they came."""
    before, model = nn.functional.scaled_dot_product_attention, families.build(SMALL["vit"], device="meta")
    with tracing._kernels(model, "float32"):
        inside = nn.functional.scaled_dot_product_attention
        with tracing._kernels(model, "bfloat16"):
            assert nn.functional.scaled_dot_product_attention is inside is not before
        assert nn.functional.scaled_dot_product_attention is inside
    assert nn.functional.scaled_dot_product_attention is before

    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with tracing._kernels(model, "float32"):
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with tracing._kernels(model, "float32"):
        thread.start()
        assert entered.wait(10)
    assert nn.functional.scaled_dot_product_attention is inside, "the other is still tracing"
    leave.set()
    thread.join(10)
    assert nn.functional.scaled_dot_product_attention is before
    assert not any("forward" in vars(module) for module in model.modules())


def test_what_others_put_in_its_place_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    before = nn.functional.scaled_dot_product_attention

    def other(*args, **kwargs) -> torch.Tensor:
        calls.append(args)
        return before(*args, **kwargs)

    model = families.build(SMALL["vit"], device="meta")
    with tracing._kernels(model, "float32"):
        kept = nn.functional.scaled_dot_product_attention
        monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", other)
    assert nn.functional.scaled_dot_product_attention is other
    x = torch.randn(1, 1, 4, 4)
    torch.testing.assert_close(kept(x, x, x), before(x, x, x))  # a reference kept from inside does what it did outside
    monkeypatch.undo()
    nn.functional.scaled_dot_product_attention = before


# The loss of real tasks


TEXT = dict(dataset="pydoc", length=64)
NEXT, MASKED = NextToken(tokenizer="bpe:2048", **TEXT), MaskedToken(tokenizer="wordpiece:2048", **TEXT)
REAL = {
    "gpt2": (NEXT, {"n_positions": 64, "attn_pdrop": 0, "resid_pdrop": 0, "embd_pdrop": 0}),
    "story-gpt": (NEXT, {"max_position_embeddings": 64, "dropout": 0}),
    "bert": (MASKED, {"max_position_embeddings": 64, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}),
    "crammed-bert": (MASKED, {"max_position_embeddings": 64}),
    "nystromformer": (ListOps(min_length=50, max_length=100, train=64, validation=8, test=8), {"dropout": 0}),
    "vit": (ImageClasses(dataset="digits"), {"patch_size": 4}),
}
"""A task for each kind of loss, and options that fit it. Dropout is off, as the fused kernel of the CPU has none."""


@pytest.mark.parametrize("key", REAL)
def test_memory_is_that_of_a_step_with_the_tasks_own_loss(key: str) -> None:
    task, options = REAL[key]
    data, batch = task.load(), 16
    architecture = SMALL[key].with_options(**{**options, **data.options})
    family, setting = families.family(architecture.family), Setting(batch=batch, tokens=data.tokens)
    model = without_dropout(family.build(architecture))
    (sample,) = data.batches(Order(0, batch, data.size), range(1), Share())
    with family.configure(model, "fused", False), tracing.Alive() as alive:
        loss = data.loss(model, sample)
        saved = alive.now
        loss.backward()
        del loss
    counted = formula(architecture, setting).cost(architecture, setting)
    assert counted.saved_bytes == pytest.approx(saved, rel=0.02)
    assert traced(architecture, setting).peak_bytes == pytest.approx(alive.peak, rel=0.02)
