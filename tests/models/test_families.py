"""Every family: any design in both regimes builds, runs, trains and is read back; initial weights are upstream's."""

import copy
import functools

import pytest
import timm
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from leanformer.architecture import Architecture
from leanformer.models import families
from leanformer.models.huggingface import decoder
from leanformer.models.huggingface.base import without_packing
from support.amount import some
from support.architectures import SIMILAR, SMALL, TIMM


def leaner(key: str, keep: str = "head_dim") -> Architecture:
    """Twice the heads, half the depth."""
    architecture = SMALL[key]
    depths = [max(1, stage.depth // 2) for stage in architecture.stages]
    return architecture.resized(heads=[2 * stage.heads for stage in architecture.stages], depth=depths, keep=keep)


def scalar(output) -> torch.Tensor:
    output = getattr(output, "logits", output)
    if isinstance(output, tuple):
        return sum((part.float() - 1).square().mean() for part in output)
    return (output.float() - 1).square().mean()


@pytest.mark.parametrize("keep", ["head_dim", "width"])
@pytest.mark.parametrize("key", SMALL)
def test_more_heads_and_less_depth_train(key: str, keep: str) -> None:
    torch.manual_seed(0)
    architecture = leaner(key, keep)
    model = families.build(architecture).train()
    assert families.describe(model) == families.family(architecture.family).canonical(architecture)
    inputs = families.example_inputs(architecture)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=True)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        torch.manual_seed(1)
        loss = scalar(model(**inputs))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    unused = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert not [name for name in unused if "attn" in name or "mlp" in name]


@pytest.mark.parametrize("key", SMALL)
def test_bfloat16_autocast(key: str) -> None:
    torch.manual_seed(0)
    architecture = leaner(key)
    model, inputs = families.build(architecture).eval(), families.example_inputs(architecture)
    with torch.no_grad():
        plain = getattr(out := model(**inputs), "logits", out)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = getattr(out := model(**inputs), "logits", out)
    mixed.float().square().mean().backward()
    assert mixed.dtype == torch.bfloat16 or key == "point-encoder"  # points end with a norm, which is float32
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    assert (mixed.float() - plain).norm() < 0.05 * plain.norm() + 0.05


@pytest.mark.parametrize("key", [*(key for key in SMALL if key not in SIMILAR), *some(SIMILAR, 1)])
def test_torch_compile(key: str) -> None:
    """Through the whole compiler but its C++ back end, which needs a C++ compiler on the machine."""
    torch.manual_seed(0)
    architecture = leaner(key)
    model, inputs = families.build(architecture).eval(), families.example_inputs(architecture)
    if hasattr(model, "config"):
        inputs["use_cache"] = False
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        expected, got = model(**inputs), compiled(**inputs)
    torch.testing.assert_close(getattr(got, "logits", got), getattr(expected, "logits", expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "key", [key for key in SMALL if key not in ("xcit", "swin", "nystromformer", "nystromformer-retrieval")]
)
def test_fused_attention_is_used(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    architecture = leaner(key)
    model, inputs = families.build(architecture).eval(), families.example_inputs(architecture)
    calls = []
    fused = nn.functional.scaled_dot_product_attention

    def counted(query, *args, **kwargs):
        calls.append(tuple(query.shape))
        return fused(query, *args, **kwargs)

    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", counted)
    with torch.no_grad():
        model(**inputs)
    kinds = [block for block in families.attention_blocks(model) if block.kind in ("self", "inner", "window")]
    assert len(calls) >= len(kinds)
    assert {(block.heads, block.head_dim) for block in kinds} <= {(shape[1], shape[3]) for shape in calls}


@pytest.mark.parametrize("key", SMALL)
def test_attention_blocks_name_the_concatenated_heads(key: str) -> None:
    """A hook on each block's projection sees a matrix of heads × head_dim columns."""
    architecture = leaner(key)
    model, inputs = families.build(architecture).eval(), families.example_inputs(architecture)
    blocks = families.attention_blocks(model)
    assert all(model.get_submodule(block.path) is not None for block in blocks)
    seen: dict[str, tuple[int, ...]] = {}
    handles = [
        model.get_submodule(block.projection).register_forward_pre_hook(
            lambda module, args, name=block.projection: seen.__setitem__(name, tuple(args[0].shape))
        )
        for block in blocks
    ]
    with torch.no_grad():
        model(**inputs)
    for handle in handles:
        handle.remove()
    for block in blocks:
        assert seen[block.projection][-1] == block.heads * block.head_dim, block
        assert (block.kind == "class") == (block.kind == "class" and seen[block.projection][-2] == 1)
    followed = [block for block in blocks if block.kind not in ("class", "inner")]
    assert sorted({block.layer for block in followed}) == list(range(architecture.depth))
    for block in followed:
        stage = architecture.stages[block.stage]
        assert (block.heads, block.head_dim) == (stage.heads, stage.head_dim)


def test_class_attention_is_marked() -> None:
    for key, count in (("xcit", 2), ("volo", 2), ("vit", 0)):
        blocks = families.attention_blocks(families.build(SMALL[key], device="meta"))
        assert sum(block.kind == "class" for block in blocks) == count
    kinds = {block.kind for block in families.attention_blocks(families.build(SMALL["davit"], device="meta"))}
    assert kinds == {"window", "channel"}
    kinds = {block.kind for block in families.attention_blocks(families.build(SMALL["volo"], device="meta"))}
    assert kinds == {"outlook", "self", "class"}


sizes = st.integers(1, 24)


@st.composite
def designs(draw: st.DrawFn) -> Architecture:
    """Any depth, heads, head_dim and MLP for any family, in either regime; some of it impossible."""
    architecture = SMALL[draw(st.sampled_from(list(SMALL)))]
    stages = len(architecture.stages)

    def per_stage(values: st.SearchStrategy[int]) -> list[int]:
        return draw(st.lists(values, min_size=stages, max_size=stages))

    architecture = architecture.resized(depth=per_stage(st.integers(1, 3)), mlp_dim=per_stage(st.integers(1, 100)))
    if draw(st.booleans()):
        divisors = [[h for h in range(1, 33) if stage.width % h == 0] for stage in architecture.stages]
        return architecture.resized(heads=[draw(st.sampled_from(options)) for options in divisors], keep="width")
    architecture = architecture.resized(heads=per_stage(sizes), head_dim=per_stage(sizes))
    if stages == 1 and draw(st.booleans()):
        schedule = draw(st.lists(sizes, min_size=1, max_size=4))
        return architecture.resized(depth=len(schedule), heads=schedule)
    return architecture


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(designs())
def test_any_design_builds_and_reads_back_or_names_the_field(architecture: Architecture) -> None:
    try:
        model = families.build(architecture).eval()
    except ValueError as error:
        fields = ("width", "depth", "heads", "head_dim", "mlp_dim", "stages")
        assert any(field in str(error) for field in fields), error
        return
    assert families.describe(model) == families.family(architecture.family).canonical(architecture)
    assert families.describe(model).layers == architecture.layers
    with torch.no_grad():
        out = model(**families.example_inputs(architecture, batch=1))
    assert torch.isfinite(scalar(out))


# Initial weights


@pytest.mark.parametrize("key", ["vit", "xcit", "tnt", "davit", "swin"])
def test_an_unchanged_architecture_is_bit_identical_to_timms_model(key: str) -> None:
    architecture = families.read(SMALL[key].name, num_classes=10)
    torch.manual_seed(3)
    theirs = timm.create_model(architecture.name, num_classes=10)
    torch.manual_seed(3)
    ours = families.build(architecture)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(tensor, ours.state_dict()[name]), name


def statistics(model: nn.Module) -> dict[str, tuple[float, float]]:
    """Mean and spread of each kind of weight, over the layers."""
    pooled: dict[str, list[torch.Tensor]] = {}
    for name, parameter in model.named_parameters():
        kind = ".".join(part for part in name.split(".") if not part.isdigit())
        if parameter.numel() > 1000 or "attn" in name or "mlp" in name:
            pooled.setdefault(kind, []).append(parameter.detach().flatten())
    assert len(pooled) > 4
    return {kind: (torch.cat(values).mean().item(), torch.cat(values).std().item()) for kind, values in pooled.items()}


HUGGING_FACE = ("gpt2", "bert", "roberta", "distilbert", "modernbert", "hf-vit", "dinov2", "llama")


@pytest.mark.parametrize("key", [*TIMM, *HUGGING_FACE, "crammed-bert", "story-gpt"])
def test_initial_statistics_do_not_depend_on_the_heads(key: str) -> None:
    torch.manual_seed(0)
    base = SMALL[key].resized(width=[64 * s.width // SMALL[key].stages[0].width for s in SMALL[key].stages])
    original = statistics(families.build(base))
    changed = base.resized(
        heads=[2 * s.heads for s in base.stages],
        head_dim=[3 * s.head_dim for s in base.stages],
        mlp_dim=[2 * s.mlp_dim for s in base.stages],
    )
    changed = statistics(families.build(changed))
    assert original.keys() == changed.keys()
    for kind, (mean, spread) in original.items():
        assert changed[kind][0] == pytest.approx(mean, abs=0.01), kind
        assert changed[kind][1] == pytest.approx(spread, rel=0.15, abs=1e-3), kind


def test_gpt2_residual_projections_shrink_with_depth() -> None:
    torch.manual_seed(0)
    base = SMALL["gpt2"].resized(width=256, heads=8, head_dim=48)
    for depth in (2, 8):
        spread = families.build(base.resized(depth=depth)).transformer.h[0].attn.c_proj.weight.std().item()
        assert spread == pytest.approx(0.02 / (2 * depth) ** 0.5, rel=0.05)


def test_vit_initialisation_schemes_reach_resized_layers() -> None:
    torch.manual_seed(0)
    base = families.read("vit_tiny_patch16_224", weight_init="jax").resized(depth=1, heads=9)
    block = families.build(base).blocks[0]
    inputs, outputs = block.attn.qkv.in_features, block.attn.qkv.out_features
    assert block.attn.qkv.weight.abs().max().item() == pytest.approx((6 / (inputs + outputs)) ** 0.5, rel=0.01)


# What is refused


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("vit_bse_patch16_224", {}, "unknown model 'vit_bse_patch16_224': did you mean vit_base_patch16_224"),
        ("qqqqqqqq", {}, "`leanformer models` lists the names, and a folder with a config.json is taken too"),
        ("modernbert-base", {}, "did you mean ModernBERT-base"),
        ("swin_tiny", {}, "did you mean swin_tiny_patch4_window7_224"),
        ("lean_vit_base", {}, "did you mean lean_vit_base_patch16_224"),
        ("someone/roberta_base", {}, "did you mean roberta-base"),
        ("meta-qqqqq/QQQQQ-8B", {}, "save the model's config.json in a folder and give the folder"),
        ("vit_base_patch16_224.augreg_in21k", {}, "names pretrained weights, .* fresh ones: give vit_base_patch16_224"),
        (
            "resnet50",
            {},
            "resnet50 is known to timm but cannot be redesigned: it has no attention .families: vit, xcit",
        ),
        ("mamba", {}, "mamba is known to transformers but cannot be redesigned: it has no attention"),
        ("vit_base_patch16_224", {"depth": 7}, "give depth= instead of depth=7"),
        ("vit_base_patch16_224", {"num_heads": 7}, "give heads= instead of num_heads=7"),
        ("vit_base_patch16_224", {"colour": 7}, "vit_base_patch16_224 does not take that option"),
        ("gpt2", {"n_head": 7}, "give heads= instead of n_head=7"),
        ("gpt2", {"num_attention_heads": 7}, "give heads= instead of num_attention_heads=7"),
        ("crammed-bert", {"num_hidden_layers": 2}, "give depth= instead of num_hidden_layers=2"),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention is not supported"),
        (
            "deepseek_v3",
            {},
            "deepseek_v3 is known to transformers but cannot be redesigned: .* not a plain decoder layer",
        ),
        ("gemma4_text", {}, "gemma4_text is known to transformers but cannot be redesigned: no family"),
        (
            "t5",
            {},
            "t5 is known to transformers but cannot be redesigned: no family .*`leanformer measure FOLDER` shows",
        ),
        (
            "cait_xxs24_224",
            {},
            "is known to timm but .*: no family .*; `leanformer measure cait_xxs24_224` shows its κ",
        ),
        ("roberta-base", {"num_attention_heads": 7}, "give heads= instead of num_attention_heads=7"),
        ("distilbert-base-uncased", {"n_heads": 7}, "give heads= instead of n_heads=7"),
        ("vit-base-patch16-224", {"num_labels": 7}, "give num_classes= instead of num_labels=7"),
        ("dinov2-base", {"use_swiglu_ffn": True}, "use_swiglu_ffn is not supported"),
        ("gpt2", {"colour": 7}, "colour is not a field of LeanGPT2Config"),
        ("llama", {"colour": 7}, "colour is not a field of LlamaConfig"),
        ("vit_base_patch16_siglip_224", {}, "pools by attention"),
        ("aimv2_large_patch14_224", {}, "built of Block, Attention, SwiGLU"),
        ("davit_base_fl", {}, "ChannelAttentionV2"),
    ],
)
def test_unknown_names_and_options(name: str, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        families.read(name, **options)
    assert "\n" not in str(raised.value)


def test_names_of_the_hub_are_understood() -> None:
    for name in ("google-bert/bert-base-uncased", "FacebookAI/roberta-base", "answerdotai/ModernBERT-base"):
        assert families.read(name) == families.read(name.rpartition("/")[2])
    assert families.read("google/vit-base-patch16-224").family == "hf-vit"


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        (
            "volo",
            lambda a: Architecture(family="volo", name=a.name, stages=a.stages[:3]),
            "stages: a volo model has 4, got 3",
        ),
        ("volo", lambda a: a.resized(width=[16, 32, 48, 32]), "width must be the same in VOLO's stages 2 to 4"),
        ("volo", lambda a: a.resized(width=[16, 30, 30, 30]), "class_heads=4 must divide width 30"),
        ("xcit", lambda a: a.resized(width=4), "width must be at least 8"),
        ("swin", lambda a: a.resized(width=[8, 16, 16, 64]), "width must double from stage to stage of a Swin"),
        ("modernbert", lambda a: a.resized(head_dim=7), "head_dim must be even"),
        ("modernbert", lambda a: a.resized(heads=[4, 8], keep="width"), "head_dim must be the same in all layers"),
        ("xcit", lambda a: a.with_options(class_heads=0), "class_heads must be at least 1"),
        ("gpt2", lambda a: a.with_options(vocab_size="abc"), "vocab_size"),
        ("qwen3", lambda a: a.with_options(kv_groups=-1), "kv_groups must be at least 1"),
        ("vit", lambda a: a.resized(heads=[4, 8], mlp_dim=[96, 48]).with_options(scale_mlp_norm=True), "mlp_dim"),
        (
            "vit",
            lambda a: Architecture(**{**vars(a), "stages": (*a.stages, *a.resized(width=32).stages)}),
            "width must be the same",
        ),
        ("crammed-bert", lambda a: a.resized(mlp_dim=33), "mlp_dim must be even"),
        ("crammed-bert", lambda a: a.resized(width=33), "width must be even"),
        ("nystromformer-retrieval", lambda a: a.with_options(conv_kernel=4), "conv_kernel must be odd"),
        ("llama", lambda a: a.resized(head_dim=7), "head_dim must be even"),
        ("llama", lambda a: a.resized(heads=5), "heads, width or an option does not suit upstream's llama config"),
        ("llama", lambda a: a.resized(heads=[4, 8]), "stages: a Hugging Face decoder has layers of one shape"),
        ("qwen3", lambda a: a.resized(heads=5), "heads=5 must be a multiple of kv_groups=2"),
    ],
)
def test_impossible_designs_name_the_field(key: str, change, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        families.build(change(SMALL[key]), device="meta")


def test_sequences_longer_than_the_model() -> None:
    model = families.build(SMALL["story-gpt"])
    with pytest.raises(ValueError, match="at most 64 tokens, got a sequence of 65"):
        model(torch.zeros(1, 65, dtype=torch.long))


def test_unknown_modules_are_refused() -> None:
    with pytest.raises(ValueError, match="Linear belongs to no known family"):
        families.of(nn.Linear(2, 2))


def test_every_listed_decoder_is_plain() -> None:
    for name in families.family("decoder").names():
        design = families.read(name).resized(depth=1)
        assert families.describe(families.build(design, device="meta")).stages == design.stages, name


def test_every_listed_timm_name_can_be_read() -> None:
    for key in ("vit", "xcit", "tnt", "volo", "davit", "swin"):
        for name in some(families.family(key).names(), 8):
            assert families.read(name).depth >= 1, name


def test_every_unlisted_timm_name_says_why() -> None:
    vit = families.family("vit")
    unlisted = sorted(set(timm.list_models(module="vision_transformer")) - set(vit.names()))
    assert unlisted
    for name in some(unlisted, 12):
        with pytest.raises(ValueError, match=f"{name} is known to timm but cannot be redesigned: this ViT"):
            families.read(name)


def test_models_copy_and_move() -> None:
    model = families.build(SMALL["vit"])
    twin = copy.deepcopy(model)
    assert families.describe(twin) == families.describe(model)
    assert families.describe(families.build(SMALL["vit"], device="meta")) == families.describe(model)


def test_story_gpt_generates_with_a_cache() -> None:
    torch.manual_seed(0)
    model = families.build(SMALL["story-gpt"].with_options(eos_token_id=None)).eval()
    prompt = torch.randint(101, (2, 5))
    with_cache = model.generate(prompt, max_new_tokens=12, do_sample=False)
    without = model.generate(prompt, max_new_tokens=12, do_sample=False, use_cache=False)
    assert with_cache.shape == (2, 17)
    assert torch.equal(with_cache, without)


def test_story_gpt_generates_the_same_tokens_in_a_batch_padded_on_the_left() -> None:
    torch.manual_seed(0)
    model = families.build(SMALL["story-gpt"].with_options(eos_token_id=None, pad_token_id=0)).eval()
    prompt, longer = torch.randint(1, 101, (1, 4)), torch.randint(1, 101, (1, 9))
    batch = torch.cat([nn.functional.pad(prompt, (5, 0)), longer])
    for cache in (True, False):
        settings = dict(max_new_tokens=12, do_sample=False, use_cache=cache)
        together = model.generate(batch, attention_mask=(batch != 0).long(), **settings)
        assert torch.equal(together[:1, 5:], model.generate(prompt, **settings))
        assert torch.equal(together[1:], model.generate(longer, **settings))


def test_attention_functions_are_left_as_they_were() -> None:
    """Also one that somebody else has replaced, and one that is registered meanwhile."""
    interface = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS
    before, own = dict(interface), interface["sdpa"]
    interface["sdpa"] = replaced = functools.partial(own)
    try:
        with families.attention_interface(lambda module, heads: None):
            assert interface["sdpa"] is not replaced
            type(interface).register("of-this-test", own)
        assert interface["sdpa"] is replaced
        assert interface["of-this-test"] is own
        assert "eager" not in interface
    finally:
        del interface["sdpa"], type(interface)._global_mapping["of-this-test"]
    assert dict(interface) == before


def test_only_meta_tensors_skip_the_search_for_packed_sequences() -> None:
    search = transformers.masking_utils.find_packed_sequence_indices
    positions = torch.tensor([[0, 1, 2, 0, 1]])
    with without_packing():
        assert transformers.masking_utils.find_packed_sequence_indices(positions.to("meta")) is None
        assert transformers.masking_utils.find_packed_sequence_indices(positions).tolist() == [[0, 0, 0, 1, 1]]
    assert transformers.masking_utils.find_packed_sequence_indices is search


def test_a_decoder_is_known_without_building_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder.Decoder, "build", lambda *_, **__: pytest.fail("a model was built"))
    family = families.family("decoder")
    assert family.known("cohere2")
    assert not family.known("t5")
    assert not family.known("gemma4_text"), "its head_dim differs by layer"


def test_bugs_in_the_check_of_a_decoder_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(decoder.Decoder, "build", broken)
    with pytest.raises(ZeroDivisionError):
        decoder.why_not_plain.__wrapped__("cohere2")
