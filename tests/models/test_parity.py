"""With upstream's weights copied in, our modules compute what upstream's do: outputs and gradients, in both modes."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import timm
import torch
import torch.nn.functional as F
import transformers
from timm.models.volo import VOLO
from torch import nn

from leanformer.models import families
from leanformer.models.own.nystromformer import NystromAttention, NystromformerConfig, nystrom_attention
from leanformer.models.timm.base import TimmFamily
from support.architectures import SMALL, TIMM


def upstream_timm(key: str) -> nn.Module:
    """timm's own model of the small architecture, made without our code."""
    architecture = SMALL[key]
    family = families.family(architecture.family)
    assert isinstance(family, TimmFamily)
    arguments = {**family.arguments(architecture), **family.timm_options(architecture.options)}
    if key == "volo":
        return VOLO(stem_hidden_dim=64, **arguments)
    return timm.create_model(architecture.name, **arguments)


IMAGE_MODELS: dict[str, tuple[Any, Any]] = {
    "hf-vit": (transformers.ViTConfig, transformers.ViTForImageClassification),
    "dinov2": (transformers.Dinov2Config, transformers.Dinov2ForImageClassification),
}


def upstream_hugging_face(key: str) -> nn.Module:
    stage, options = SMALL[key].stages[0], SMALL[key].options
    if key == "gpt2":
        config = transformers.GPT2Config(
            n_embd=stage.width, n_layer=stage.depth, n_head=stage.heads, n_inner=stage.mlp_dim, **options
        )
        return transformers.GPT2LMHeadModel(config)
    if key in IMAGE_MODELS:
        of_images, of_classes = IMAGE_MODELS[key]
        names = {"num_classes": "num_labels", "img_size": "image_size", "patch_size": "patch_size"}
        images = {field: options[word] for word, field in names.items()}
        own = {"mlp_ratio": stage.mlp_dim // stage.width} if key == "dinov2" else {"intermediate_size": stage.mlp_dim}
        shape = dict(
            hidden_size=stage.width, num_hidden_layers=stage.depth, num_attention_heads=stage.heads, **own, **images
        )
        return of_classes(of_images(**shape))
    if key == "distilbert":
        shape = dict(dim=stage.width, n_layers=stage.depth, n_heads=stage.heads, hidden_dim=stage.mlp_dim)
        return transformers.DistilBertForMaskedLM(transformers.DistilBertConfig(**shape, **options))
    sizes = dict(
        hidden_size=stage.width,
        num_hidden_layers=stage.depth,
        num_attention_heads=stage.heads,
        intermediate_size=stage.mlp_dim,
        vocab_size=options["vocab_size"],
    )
    if key == "bert":
        return transformers.BertForMaskedLM(transformers.BertConfig(**sizes))
    if key == "roberta":
        own = dict(max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5)
        return transformers.RobertaForMaskedLM(transformers.RobertaConfig(**sizes, **own))
    if key == "modernbert":
        own = dict(local_attention=options["local_attention"], pad_token_id=None)
        return transformers.ModernBertForMaskedLM(transformers.ModernBertConfig(**sizes, **own))
    if key == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(head_dim=stage.head_dim, **sizes))
    return transformers.Qwen3ForCausalLM(
        transformers.Qwen3Config(head_dim=stage.head_dim, num_key_value_heads=stage.heads // 2, **sizes)
    )


UPSTREAM: dict[str, Callable[[str], nn.Module]] = dict.fromkeys(TIMM, upstream_timm) | dict.fromkeys(
    ("gpt2", "bert", "llama", "qwen3", "roberta", "distilbert", "modernbert", *IMAGE_MODELS), upstream_hugging_face
)


def logits(output) -> torch.Tensor:
    output = getattr(output, "logits", output)
    return output[0] if isinstance(output, tuple) else output


def loss_and_gradients(model: nn.Module, inputs: dict) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad()
    out = logits(model(**inputs))
    out.float().square().mean().backward()
    return out.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("key", UPSTREAM)
def test_outputs_and_gradients_equal_upstreams(key: str, mode: str) -> None:
    torch.manual_seed(0)
    architecture = SMALL[key]
    theirs = UPSTREAM[key](key)
    for parameter in theirs.parameters():  # away from zero biases and unit gains, so that every term is tested
        parameter.data.add_(0.05 * torch.randn_like(parameter))
    ours = families.build(architecture)
    ours.load_state_dict(theirs.state_dict())
    for model in (ours, theirs):
        model.train(mode == "train")
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
    inputs = families.example_inputs(architecture, batch=3)
    torch.manual_seed(1)  # VOLO mixes nothing here, but batch statistics are computed in training mode
    got, got_gradients = loss_and_gradients(ours, inputs)
    torch.manual_seed(1)
    expected, expected_gradients = loss_and_gradients(theirs, inputs)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    assert got_gradients.keys() == expected_gradients.keys()
    for name, gradient in expected_gradients.items():
        torch.testing.assert_close(
            got_gradients[name], gradient, rtol=1e-4, atol=1e-6, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("key", TIMM)
def test_explicit_attention_equals_fused(key: str) -> None:
    torch.manual_seed(0)
    model = families.build(SMALL[key].resized(heads=8, depth=[1] * 4 if key in ("volo", "davit", "swin") else 1)).eval()
    inputs = families.example_inputs(SMALL[key])
    with torch.no_grad():
        fused = model(**inputs)
        switched = [module for module in model.modules() if getattr(module, "fused_attn", None) is True]
        for module in switched:
            module.fused_attn = False
        explicit = model(**inputs)
    assert switched or key in ("xcit", "swin")  # timm leaves the fused kernel of these off by default
    torch.testing.assert_close(logits(explicit), logits(fused), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "key", ["crammed-bert", "story-gpt", "gpt2", "bert", "roberta", "distilbert", "modernbert", "llama"]
)
def test_eager_attention_equals_sdpa(key: str) -> None:
    torch.manual_seed(0)
    model = families.build(SMALL[key].resized(heads=8)).eval()
    inputs = families.example_inputs(SMALL[key])
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    inputs["attention_mask"][1, 40:] = 0
    with torch.no_grad():
        assert model.config._attn_implementation == "sdpa"
        fused = model(**inputs).logits
        model.set_attn_implementation("eager")
        explicit = model(**inputs).logits
    torch.testing.assert_close(explicit[0], fused[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(explicit[1, :40], fused[1, :40], rtol=1e-4, atol=1e-5)


# Our own language models against a few lines of plain PyTorch


def heads_of(linear: torch.Tensor, heads: int) -> torch.Tensor:
    batch, tokens, _ = linear.shape
    return linear.reshape(batch, tokens, heads, -1).transpose(1, 2)


def plain_attention(x: torch.Tensor, attention: nn.Module, causal: bool) -> torch.Tensor:
    q, k, v = (heads_of(part, attention.num_heads) for part in attention.qkv(x).chunk(3, dim=-1))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -math.inf)
    return attention.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def test_story_gpt_equals_a_plain_gpt() -> None:
    torch.manual_seed(0)
    model = families.build(SMALL["story-gpt"].resized(heads=6)).eval()
    ids = torch.randint(101, (2, 20))
    x = model.token_embedding.weight[ids] + model.position_embedding.weight[:20]
    for block in model.blocks:
        x = x + plain_attention(F.layer_norm(x, (32,), block.norm1.weight, block.norm1.bias), block.attn, causal=True)
        h = F.layer_norm(x, (32,), block.norm2.weight, block.norm2.bias)
        x = x + F.relu(h @ block.mlp[0].weight.T + block.mlp[0].bias) @ block.mlp[2].weight.T + block.mlp[2].bias
    x = F.layer_norm(x, (32,), model.norm.weight, model.norm.bias)
    expected = x @ model.lm_head.weight.T + model.lm_head.bias
    out = model(ids, labels=ids)
    torch.testing.assert_close(out.logits, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(out.loss, F.cross_entropy(expected[:, :-1].flatten(0, 1), ids[:, 1:].flatten()))


def test_crammed_bert_equals_a_plain_encoder() -> None:
    torch.manual_seed(0)
    model = families.build(SMALL["crammed-bert"].resized(heads=6)).eval()
    ids = torch.randint(1, 101, (2, 20))
    encoder, width = model.encoder, 32
    positions = torch.zeros(20, width)
    for t in range(20):
        for i in range(0, width, 2):
            positions[t, i] = math.sin(t / 10000 ** (i / width))
            positions[t, i + 1] = math.cos(t / 10000 ** (i / width))
    x = encoder.word_embeddings.weight[ids] + positions * width**-0.5
    x = F.layer_norm(x, (width,), eps=1e-12)
    for block in encoder.blocks:
        x = x + plain_attention(F.layer_norm(x, (width,), eps=1e-12), block.attn, causal=False)
        inner = F.layer_norm(x, (width,), eps=1e-12) @ block.mlp.dense_in.weight.T
        value, gate = inner[..., :32], inner[..., 32:]
        x = x + (value * F.gelu(gate)) @ block.mlp.dense_out.weight.T
    expected = F.layer_norm(x, (width,), eps=1e-12) @ encoder.word_embeddings.weight.T
    labels = torch.full_like(ids, -100)
    labels[0, 3], labels[1, 7] = 5, 9
    torch.testing.assert_close(model(ids).logits, expected, rtol=1e-4, atol=1e-5)
    out = model(ids, labels=labels)
    torch.testing.assert_close(out.logits, expected[[0, 1], [3, 7]], rtol=1e-4, atol=1e-5)  # masked places only
    torch.testing.assert_close(out.loss, F.cross_entropy(expected[[0, 1], [3, 7]], torch.tensor([5, 9])))


# The Nyströmformer's attention against transformers' own


@pytest.mark.parametrize("conv_kernel", [None, 5])
def test_nystrom_attention_equals_transformers(conv_kernel: int | None) -> None:
    torch.manual_seed(0)
    config = transformers.NystromformerConfig(
        hidden_size=32,
        num_attention_heads=4,
        num_landmarks=16,
        segment_means_seq_len=64,
        conv_kernel_size=conv_kernel or 5,
    )
    theirs = transformers.models.nystromformer.modeling_nystromformer.NystromformerSelfAttention(config).eval()
    theirs.conv_kernel_size = conv_kernel
    theirs.init_option = "exact"  # one starting scale per matrix; upstream's default takes one per batch
    stage = SMALL["nystromformer"].stages[0]
    ours = NystromAttention(NystromformerConfig(landmarks=16, conv_kernel=conv_kernel), stage).eval()
    with torch.no_grad():
        for index, name in enumerate(("query", "key", "value")):
            ours.qkv.weight[32 * index : 32 * (index + 1)] = (
                getattr(theirs, name).weight * 8
            )  # far from uniform attention
            getattr(theirs, name).weight.mul_(8)
            ours.qkv.bias[32 * index : 32 * (index + 1)] = getattr(theirs, name).bias
        ours.proj.weight.copy_(torch.eye(32))
        ours.proj.bias.zero_()
        if conv_kernel:
            ours.conv.weight.copy_(theirs.conv.weight)
        x = torch.randn(3, 64, 32)
        torch.testing.assert_close(ours(x), theirs(x)[0], rtol=1e-4, atol=1e-4)


def test_nystrom_attention_approaches_softmax_attention() -> None:
    torch.manual_seed(0)
    q, k = (torch.randn(2, 4, 96, 8) * 0.3 for _ in range(2))
    v = torch.randn(2, 4, 96, 8)
    exact = F.scaled_dot_product_attention(q, k, v)
    errors = [
        (nystrom_attention(q, k, v, landmarks=landmarks, iterations=12) - exact).norm().item() / exact.norm().item()
        for landmarks in (4, 16, 48, 96)
    ]
    assert errors[-1] < 1e-6
    assert errors[0] > errors[2] > errors[3]


def test_nystromformer_reads_lengths_not_token_ids() -> None:
    torch.manual_seed(0)
    model = families.build(SMALL["nystromformer"]).eval()
    ids, lengths = torch.randint(32, (2, 70)), torch.tensor([70, 33])
    other = ids.clone()
    other[1, 33:] = torch.randint(32, (37,))  # padding may hold anything
    zeros = ids.clone()
    zeros[0, 10:20] = 0  # token 0 is a token
    with torch.no_grad():
        base = model(ids, lengths).logits
        torch.testing.assert_close(model(other, lengths).logits, base)
        assert not torch.allclose(model(zeros, lengths).logits[0], base[0])
        # a neighbour in the batch changes nothing
        torch.testing.assert_close(model(ids[:1], lengths[:1]).logits, base[:1], rtol=1e-5, atol=1e-6)


def test_nystromformer_pools_by_the_padded_length_as_upstream_does() -> None:
    """Upstream's benchmark code: the mean over all positions of the last norm's output times the mask."""
    torch.manual_seed(0)
    ours = families.build(SMALL["nystromformer"]).eval()
    padded = families.build(SMALL["nystromformer"].with_options(pool_by="padded")).eval()
    padded.load_state_dict(ours.state_dict())
    ids, lengths = torch.randint(32, (2, 70)), torch.tensor([70, 33])
    normed = []
    padded.norm.register_forward_hook(lambda _, __, output: normed.append(output))
    with torch.no_grad():
        got, by_length = padded.encode(ids, lengths), ours.encode(ids, lengths)
    mask = (torch.arange(70) < lengths[:, None]).float()
    torch.testing.assert_close(got, (normed[0] * mask[:, :, None]).mean(dim=1))
    torch.testing.assert_close(got, by_length * lengths[:, None] / 70)
    with pytest.raises(ValueError, match="pool_by"):
        families.build(SMALL["nystromformer"].with_options(pool_by="words"))
