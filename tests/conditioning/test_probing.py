"""The probe sees what a hand-written reference computes, in every kind of model, and leaves no trace."""

import gc
import math
import weakref

import numpy as np
import pytest
import timm
import torch
import torch.nn.functional as F
import transformers
from torch import nn

import leanformer as lf
from leanformer.conditioning.probing import probe
from leanformer.conditioning.spectra import conditioning
from leanformer.models import families
from support.architectures import SMALL


def kappa(block: torch.Tensor) -> np.ndarray:
    values = np.linalg.svd(block.detach().double().numpy(), compute_uv=False)
    return values[..., 0] / values[..., -1]


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False) -> torch.Tensor:
    """softmax(qkᵀ/√d)v of (batch, heads, tokens, d), concatenated: the definition, spelt out."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -math.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def heads_of(x: torch.Tensor, heads: int) -> torch.Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def assert_layers(seen, expected: list[np.ndarray], rtol: float = 1e-3) -> None:
    assert len(seen.layers) == len(expected)
    for layer, reference in zip(seen.layers, expected, strict=True):
        np.testing.assert_allclose(layer.values.kappa.numpy(), reference, rtol=rtol, err_msg=layer.name)


def test_timm_vit_with_fused_attention() -> None:
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", depth=3).eval()
    assert model.blocks[0].attn.fused_attn
    images = torch.randn(2, 3, 224, 224)
    expected = []
    with torch.no_grad():
        x = model.patch_embed(images)
        x = model.norm_pre(model.pos_drop(torch.cat((model.cls_token.expand(2, -1, -1), x), 1) + model.pos_embed))
        for block in model.blocks:
            qkv = block.attn.qkv(block.norm1(x)).chunk(3, dim=-1)
            expected.append(kappa(attention(*(heads_of(part, 3) for part in qkv))))
            x = block(x)
        seen = lf.measure(model, images)
    assert [layer.name for layer in seen.layers] == [f"blocks.{i}.attn" for i in range(3)]
    assert (seen.layers[0].tokens, seen.layers[0].columns, seen.layers[0].target.heads) == (197, 192, 3)
    assert_layers(seen, expected, rtol=0.02)  # κ near 1e5, and the reference runs another kernel


def test_hugging_face_gpt2_with_sdpa() -> None:
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=101, attn_implementation="sdpa")
    model = transformers.GPT2LMHeadModel(config).eval()
    ids = torch.randint(101, (3, 20))
    expected, x = [], model.transformer.wte(ids) + model.transformer.wpe(torch.arange(20))
    for block in model.transformer.h:
        qkv = block.attn.c_attn(block.ln_1(x)).chunk(3, dim=-1)
        heads = attention(*(heads_of(part, 4) for part in qkv), causal=True)
        expected.append(kappa(heads))
        x = x + block.attn.c_proj(heads)
        x = x + block.mlp(block.ln_2(x))
    assert_layers(lf.measure(model, ids), expected, rtol=0.01)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("mode", ["eval", "train"])
def test_transformer_encoder_fast_path_included(mode: str, batch_first: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=batch_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train(mode == "train")
    x = torch.randn(3, 10, 32)
    expected, state = [], x
    for block in model.layers:
        weights, bias = block.self_attn.in_proj_weight, block.self_attn.in_proj_bias
        heads = attention(*(heads_of(part, 4) for part in F.linear(state, weights, bias).chunk(3, dim=-1)))
        expected.append(kappa(heads))
        state = block.norm1(state + block.self_attn.out_proj(heads))
        state = block.norm2(state + block.linear2(F.relu(block.linear1(state))))
    inputs = x if batch_first else x.transpose(0, 1)
    with torch.no_grad():
        before = model(inputs)
        with probe(model) as seen:
            during = model(inputs)
        after = model(inputs)
    assert_layers(seen, expected)
    torch.testing.assert_close(during, before, rtol=1e-5, atol=1e-6)
    assert torch.equal(before, after)
    assert torch.backends.mha.get_fastpath_enabled()


def test_multihead_attention_keeps_its_gradients() -> None:
    torch.manual_seed(0)
    model = nn.MultiheadAttention(16, 4, batch_first=True)
    x = torch.randn(2, 6, 16)
    model(x, x, x)[0].square().sum().backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    with probe(model):
        model(x, x, x)[0].square().sum().backward()
    assert {name for name, _ in model.named_parameters()} == expected.keys()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("key", SMALL)
def test_every_family_gives_the_blocks_own_kappa(key: str) -> None:
    """Against plain hooks on the projections, written here."""
    torch.manual_seed(0)
    architecture = SMALL[key].resized(heads=[2 * stage.heads for stage in SMALL[key].stages])
    model, inputs = families.build(architecture).eval(), families.example_inputs(architecture)
    inputs.pop("lengths", None)  # rows of padding are another test's
    blocks = [block for block in families.attention_blocks(model) if block.kind != "class"]
    caught: dict[str, torch.Tensor] = {}
    handles = [
        model.get_submodule(b.projection).register_forward_pre_hook(
            lambda _, args, name=b.path: caught.__setitem__(name, args[0].detach().clone())
        )
        for b in blocks
    ]
    with torch.no_grad():
        model(**inputs)
    for handle in handles:
        handle.remove()
    seen = lf.measure(model, inputs)
    assert [layer.name for layer in seen.layers] == [block.path for block in blocks]
    for layer in seen.layers:
        block = caught[layer.name]
        block = block.flatten(1, 2) if block.ndim == 4 else block
        assert (layer.tokens, layer.columns) == tuple(block.shape[1:])
        torch.testing.assert_close(layer.values.kappa, conditioning(block).kappa, rtol=1e-3, atol=0)


@pytest.mark.parametrize("key", ["nystromformer", "nystromformer-retrieval"])
def test_rows_beyond_a_sequences_length_are_left_out(key: str) -> None:
    torch.manual_seed(0)
    model, inputs = families.build(SMALL[key]).eval(), families.example_inputs(SMALL[key], batch=3)
    first = families.attention_blocks(model)[0]
    caught: list[torch.Tensor] = []
    hook = lambda _, args: caught.append(args[0].detach().clone())  # noqa: E731
    handle = model.get_submodule(first.projection).register_forward_pre_hook(hook)
    with torch.no_grad():
        model(**inputs)
    handle.remove()
    seen = lf.measure(model, inputs).layers[0].values.kappa
    wanted = [
        conditioning(rows[None, :n]).kappa for rows, n in zip(caught[0], inputs["lengths"].flatten(), strict=True)
    ]
    torch.testing.assert_close(seen, torch.cat(wanted), rtol=1e-3, atol=0)


def hugging_face_models() -> dict[str, nn.Module]:
    small = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
    return {
        "vit": transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **small)),
        "roberta": transformers.RobertaModel(transformers.RobertaConfig(**small)),
        "mpnet": transformers.MPNetModel(transformers.MPNetConfig(**small)),
        "distilbert": transformers.DistilBertModel(
            transformers.DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=48)
        ),
        "opt": transformers.OPTModel(
            transformers.OPTConfig(
                hidden_size=32, word_embed_proj_dim=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=48
            )
        ),
        "nystromformer": transformers.NystromformerModel(
            transformers.NystromformerConfig(num_landmarks=8, segment_means_seq_len=16, **small)
        ),
    }


PROJECTIONS = {
    "vit": "*.attention.o_proj",
    "roberta": "*.attention.output.dense",
    "mpnet": "*.attention.attn.o",
    "distilbert": "*.attention.out_lin",
    "opt": "*.self_attn.out_proj",
    "nystromformer": "*.attention.output.dense",
}


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("key", PROJECTIONS)
def test_other_hugging_face_models(key: str, implementation: str) -> None:
    """What the attention interface shows is what goes into the output projection, named here by hand."""
    torch.manual_seed(0)
    model = hugging_face_models()[key].eval()
    if key not in ("mpnet", "nystromformer"):
        model.set_attn_implementation(implementation)
    inputs = torch.randn(2, 3, 32, 32) if key == "vit" else torch.randint(3, 100, (2, 16))
    seen, by_hand = lf.measure(model, inputs), lf.measure(model, inputs, projections=PROJECTIONS[key])
    assert len(seen.layers) == len(by_hand.layers) == 2
    for layer, reference in zip(seen.layers, by_hand.layers, strict=True):
        torch.testing.assert_close(layer.values.kappa, reference.values.kappa, rtol=1e-6, atol=0)
        assert (layer.target.heads, layer.target.head_dim) == (4, 8)


@pytest.mark.parametrize("name", ["swin_tiny_patch4_window7_224", "cait_xxs24_224", "beit_base_patch16_224"])
def test_other_timm_models(name: str) -> None:
    model = timm.create_model(name)
    seen = lf.measure(model, torch.randn(1, 3, 224, 224))
    kinds = {layer.target.kind for layer in seen.layers}
    assert kinds == ({"window"} if "swin" in name else {"self"})
    if "swin" in name:
        assert seen.layers[0].tokens == 49
        assert len(seen.layers[0].values) == 64  # windows


class Custom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside, self.out = nn.Linear(8, 24), nn.Linear(24, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.inside(x))


def test_a_users_own_model_by_rule() -> None:
    model, x = nn.Sequential(Custom(), Custom()), torch.randn(3, 5, 8)
    for rule in ("*.out", ["0.out", "1.out"], lambda name, module: name.endswith("out")):
        seen = lf.measure(model, x, projections=rule)
        assert [layer.name for layer in seen.layers] == ["0.out", "1.out"]
        np.testing.assert_allclose(seen.layers[0].values.kappa.numpy(), kappa(model[0].inside(x)), rtol=1e-3)


def test_what_is_said_when_nothing_is_seen() -> None:
    with pytest.raises(
        ValueError, match=r"no attention was seen in Custom: it has no attention .*name its output proj"
    ):
        lf.measure(Custom(), torch.randn(1, 2, 8))
    with pytest.raises(ValueError, match=r"no module of Custom matches projections='\*\.nope'"):
        lf.measure(Custom(), torch.randn(1, 2, 8), projections="*.nope")
    model = families.build(SMALL["vit"])
    with (
        pytest.raises(ValueError, match=r"call VisionTransformer inside the `with` \(2 blocks were waiting\)"),
        probe(model),
    ):
        pass


def all_hooks(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@pytest.mark.parametrize("key", ["vit", "bert", "encoder", "hugging face"])
def test_hooks_are_gone_also_after_an_exception(key: str) -> None:
    if key == "encoder":
        model: nn.Module = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1)
    elif key == "hugging face":
        model = hugging_face_models()["opt"]
    else:
        model = families.build(SMALL[key])
    functions = dict(transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS)
    weights = {name: id(p) for name, p in model.named_parameters()}
    with pytest.raises(RuntimeError, match="on purpose"), probe(model):
        raise RuntimeError("on purpose")
    assert all_hooks(model) == 0
    assert dict(transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS) == functions
    assert {name: id(p) for name, p in model.named_parameters()} == weights
    assert torch.backends.mha.get_fastpath_enabled()


def test_an_exception_inside_multihead_attention_restores_its_weights() -> None:
    model = nn.MultiheadAttention(16, 4, batch_first=True)
    weight = model.out_proj.weight
    with pytest.raises((RuntimeError, AssertionError)), probe(model):
        model(torch.randn(2, 6, 16), torch.randn(2, 6, 16), torch.randn(2, 6, 9))
    assert model.out_proj.weight is weight


def test_padding_is_left_out() -> None:
    torch.manual_seed(0)
    model = families.build(SMALL["bert"]).eval()
    ids = torch.randint(1, 101, (2, 24))
    mask = torch.ones_like(ids)
    mask[1, 15:] = 0
    seen = lf.measure(model, {"input_ids": ids, "attention_mask": mask})
    short = lf.measure(model, {"input_ids": ids[1:, :15]})
    for layer, alone in zip(seen.layers, short.layers, strict=True):
        assert len(layer.values) == 2
        torch.testing.assert_close(layer.values.kappa[1], alone.values.kappa[0], rtol=1e-2, atol=0)


def test_padded_samples_keep_their_order_and_masks_their_kind() -> None:
    torch.manual_seed(0)
    model = families.build(SMALL["bert"]).eval()
    ids, lengths = torch.randint(1, 101, (4, 24)), [12, 16, 8, 12]
    mask = (torch.arange(24) < torch.tensor(lengths)[:, None]).long()
    seen = lf.measure(model, {"input_ids": ids, "attention_mask": mask})
    for sample, length in enumerate(lengths):
        alone = lf.measure(model, ids[sample : sample + 1, :length])
        torch.testing.assert_close(
            seen.layers[0].values.kappa[sample], alone.layers[0].values.kappa[0], rtol=1e-2, atol=0
        )
    whole = lf.measure(model, ids)
    ones = lf.measure(model, ids, mask=torch.ones_like(ids))
    assert torch.equal(whole.layers[0].values.kappa, ones.layers[0].values.kappa)
    with pytest.raises(ValueError, match=r"the mask of shape \(24, 4\) fits no block"):
        lf.measure(model, ids, mask=mask.T)


class Wrapper(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, **inputs: torch.Tensor):
        return self.inner(**inputs)


@pytest.mark.parametrize("key", SMALL)
def test_a_model_inside_another_is_seen_alike(key: str) -> None:
    torch.manual_seed(0)
    model, inputs = families.build(SMALL[key]), families.example_inputs(SMALL[key])
    alone, inside = lf.measure(model, inputs), lf.measure(Wrapper(model), inputs)
    assert [f"inner.{layer.name}" for layer in alone.layers] == [layer.name for layer in inside.layers]
    for a, b in zip(alone.layers, inside.layers, strict=True):
        assert a.target.kind == b.target.kind
        assert torch.equal(a.values.kappa, b.values.kappa)


def test_models_without_a_name_and_of_unknown_make() -> None:
    vit = timm.models.vision_transformer.VisionTransformer(
        img_size=32, patch_size=8, embed_dim=48, depth=2, num_heads=3
    )
    assert len(lf.measure(vit, torch.randn(2, 3, 32, 32)).layers) == 2
    pooled = timm.create_model("vit_base_patch16_siglip_224", depth=1)
    assert [layer.name for layer in lf.measure(pooled, torch.randn(1, 3, 224, 224)).layers] == ["blocks.0.attn"]


@pytest.mark.parametrize("first", ["compiled before", "compiled inside"])
def test_compiled_models_are_seen(first: str) -> None:
    torch._dynamo.reset()
    model, inputs = families.build(SMALL["vit"]).eval(), families.example_inputs(SMALL["vit"])
    compiled = torch.compile(model, backend="aot_eager")
    with torch.no_grad():
        if first == "compiled before":
            compiled(**inputs)
        with probe(compiled) as seen:
            compiled(**inputs)
    assert len(seen.layers) == 2


def test_infinite_values_have_quantiles() -> None:
    model = families.build(SMALL["vit"])
    nn.init.zeros_(model.blocks[0].attn.qkv.weight)
    nn.init.zeros_(model.blocks[0].attn.qkv.bias)
    summary = lf.measure(model, families.example_inputs(SMALL["vit"])).summaries()[0]
    assert summary.kappa.median == math.inf
    assert summary.rank_deficient == 2


def test_nothing_is_held_beyond_a_layer() -> None:
    """Each block is gone by the time the next one is seen."""
    model, inputs = families.build(SMALL["vit"].resized(depth=6)).eval(), families.example_inputs(SMALL["vit"])
    alive: list[weakref.ref] = []
    most = 0

    def watch(_, args) -> None:
        nonlocal most
        gc.collect()
        alive.append(weakref.ref(args[0]))
        most = max(most, sum(ref() is not None for ref in alive))

    with torch.no_grad(), probe(model) as seen:
        for block in model.blocks:
            block.attn.proj.register_forward_pre_hook(watch)
        model(**inputs)
    assert len(seen.layers) == 6
    assert most == 1


def test_measuring_changes_nothing() -> None:
    torch.manual_seed(0)
    model = families.build(SMALL["davit"]).train()
    model.stages[0].eval()  # a mixed state must survive
    model.head.norm.requires_grad_(False)
    loss = model(**families.example_inputs(SMALL["davit"])).sum()
    loss.backward()
    modes = [module.training for module in model.modules()]
    gradients = [p.grad.clone() if p.grad is not None else None for p in model.parameters()]
    buffers = {name: b.clone() for name, b in model.named_buffers()}
    state = torch.get_rng_state()
    lf.measure(model, families.example_inputs(SMALL["davit"]))
    torch.set_rng_state(state)
    before = torch.rand(3)
    torch.set_rng_state(state)
    inputs = families.example_inputs(SMALL["davit"])
    middle = torch.get_rng_state()
    lf.measure(model, inputs)
    assert torch.equal(torch.get_rng_state(), middle)
    torch.set_rng_state(state)
    assert torch.equal(torch.rand(3), before)
    assert [module.training for module in model.modules()] == modes
    for old, parameter in zip(gradients, model.parameters(), strict=True):
        assert (old is None and parameter.grad is None) or torch.equal(old, parameter.grad)
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, buffers[name])


def test_autocast_is_left_outside() -> None:
    model, inputs = families.build(SMALL["vit"]), families.example_inputs(SMALL["vit"])
    expected = lf.measure(model, inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = lf.measure(model, inputs)
        with torch.no_grad(), probe(model) as mixed:
            model(**inputs)
    assert torch.equal(inside.layers[0].values.kappa, expected.layers[0].values.kappa)
    assert mixed.layers[0].dtype == torch.bfloat16


def test_summaries_are_plain_numbers() -> None:
    seen = lf.measure(families.build(SMALL["vit"]), families.example_inputs(SMALL["vit"], batch=5))
    summary = seen.summaries()[0]
    assert summary.matrices == 5
    assert summary.kappa.lower_quartile <= summary.kappa.median <= summary.kappa.max
    assert summary.kappa.median == seen.layers[0].values.kappa.median().item()
    assert summary.kind == "self"


def test_several_passes_add_up() -> None:
    model, inputs = families.build(SMALL["vit"]).eval(), families.example_inputs(SMALL["vit"], batch=2)
    with torch.no_grad(), probe(model) as seen:
        model(**inputs)
        model(**inputs)
    assert len(seen.layers[0].values) == 4


@pytest.mark.parametrize("empty", ["", "  ", [], ["*.attn.proj", ""]])
def test_empty_patterns_are_refused(empty: object) -> None:
    """An empty pattern would match the whole model, and κ would be that of the input image."""
    model = families.build(SMALL["vit"])
    batch = families.example_inputs(SMALL["vit"])
    with pytest.raises(ValueError, match=r"projections=.* names no module: give patterns of module names, such as"):
        lf.measure(model, batch, projections=empty)
    with pytest.raises(ValueError, match="names no module"), lf.track(model, projections=empty):
        pass


def test_modules_that_take_no_block_are_refused_by_name() -> None:
    vit, gpt = families.build(SMALL["vit"]), families.build(SMALL["gpt2"])
    images, text = families.example_inputs(SMALL["vit"]), families.example_inputs(SMALL["gpt2"])
    with pytest.raises(ValueError, match=r"patch_embed.proj is not an output projection: .* with the channels first"):
        lf.measure(vit, images, projections="patch_embed.proj")
    with pytest.raises(ValueError, match=r"transformer.wte is not an output projection: .* got torch.int64 of shape"):
        lf.measure(gpt, text, projections="*wte")
    with pytest.raises(ValueError, match=r"transformer is not an output projection"):
        lf.measure(gpt, text, projections="*")
    chosen = lf.measure(vit, images, projections="*.attn.proj")
    assert [layer.name for layer in chosen.layers] == ["blocks.0.attn.proj", "blocks.1.attn.proj"]


def test_a_projection_called_with_keywords_is_seen() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(input=x)

    assert lf.measure(Own(), torch.randn(2, 5, 8), projections="out").layers[0].tokens == 5
