"""Designs timed side by side: what is timed is the real thing, and counts are those of the built models."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import leanformer as lf
from leanformer.architecture import Architecture
from leanformer.costs import speed, timing
from leanformer.costs.cache import cached_values
from leanformer.costs.setting import Setting
from leanformer.costs.speed import WORKLOADS, Bench, TimeRatio
from leanformer.costs.steps import peak_memory
from leanformer.costs.timing import FEWEST
from leanformer.models import families
from support.amount import some
from support.architectures import SMALL
from support.command import call

QUICK = {"seconds": 0.01, "batch": 2, "progress": False}


@pytest.fixture(autouse=True)
def spans_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here depends on how exact the times are."""
    monkeypatch.setattr(timing, "SHORTEST", 0.001)


@pytest.mark.parametrize("key", some(sorted(SMALL), 6))
def test_every_family_is_timed_beside_another_design(key: str) -> None:
    base = SMALL[key]
    record = lf.bench(base, against={"mlp_dim": [2 * stage.mlp_dim for stage in base.stages]}, **QUICK)
    workloads = [name for name in WORKLOADS if name != "decoding" or cached_values(base)]
    assert [one.workload for one in record.designs[0].timed] == workloads
    for design in record.designs:
        model = families.build(design.architecture, device="meta")
        assert design.params == sum(parameter.numel() for parameter in model.parameters())
        assert design.memory_bytes == peak_memory(design.architecture, Setting(batch=2))
        for one in design.timed:
            assert one.rounds == 8
            assert 0 < one.quartiles[0] <= one.seconds <= one.quartiles[1] <= one.percentile_95
            amount = {"latency": 1, "decoding": record.decoded}.get(one.workload, 2)
            assert one.per_second == pytest.approx(amount / one.seconds)
            assert (one.ratio is None) == (design is record.designs[0])
    assert record.shares(record.designs[1])["parameters"] > 1


def test_what_is_timed_is_the_real_thing() -> None:
    torch.manual_seed(0)
    setting = Setting(batch=2, tokens=5)
    subject = speed._Subject(SMALL["gpt2"], torch.device("cpu"))
    before = {name: tensor.clone() for name, tensor in subject.model.state_dict().items()}

    def changed() -> bool:
        return any(not torch.equal(tensor, before[name]) for name, tensor in subject.model.state_dict().items())

    seen: list[torch.Size] = []
    subject.model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["input_ids"].shape), with_kwargs=True
    )
    for workload, shapes in {
        "inference": [(2, 5)],
        "latency": [(1, 5)],
        "decoding": [(1, 1)] * 4,
        "training": [(2, 5)],
    }.items():
        seen.clear()
        subject.way(workload, setting, 4)()  # type: ignore[arg-type]
        assert seen == shapes, "with a cache, every token is computed once"
        assert changed() is (workload == "training")
        assert subject.model.training is (workload == "training")
        assert all(parameter.grad is None for parameter in subject.model.parameters())


def test_settings_reach_the_model() -> None:
    kinds: list[torch.dtype] = []
    subject = speed._Subject(SMALL["vit"], torch.device("cpu"))
    subject.model.blocks[0].attn.qkv.register_forward_hook(lambda module, args, out: kinds.append(out.dtype))
    for precision in ("float32", "bfloat16"):
        for workload in ("training", "inference"):
            subject.way(workload, Setting(batch=2, precision=precision), 0)()  # type: ignore[arg-type]
    assert kinds == [torch.float32] * 2 + [torch.bfloat16] * 2
    before = [parameter.clone() for parameter in subject.model.parameters()]
    subject.way("training", Setting(batch=2, optimizer="none"), 0)()
    assert all(map(torch.equal, subject.model.parameters(), before))
    subject.way("training", Setting(batch=2, optimizer="sgd"), 0)()
    assert not all(map(torch.equal, subject.model.parameters(), before))


def test_the_device_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device that takes calls without waiting for them; here, the CPU under another name."""
    waited: list[Any] = []

    class Elsewhere:
        type, index = "elsewhere", 1

    monkeypatch.setattr(torch.accelerator, "synchronize", waited.append)
    monkeypatch.setattr(speed._Subject, "__init__", _on_the_cpu(speed._Subject.__init__))
    place: Any = Elsewhere()
    found = speed.bench_designs(
        {"original": SMALL["vit"]}, Setting(batch=2), model="m", workloads=["latency"], device=place, seconds=0.0
    )
    assert found.designs[0].timed[0].rounds == FEWEST
    assert set(waited) == {place}
    assert len(waited) == 2 * (FEWEST + 1), "before and after every span"


def _on_the_cpu(init: Any) -> Any:
    return lambda self, architecture, device: init(self, architecture, torch.device("cpu"))


def test_memory_is_measured_with_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step holds at most above what was held before it, with the model's own weights."""
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 1000)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 5000)
    subject = speed._Subject(SMALL["vit"], torch.device("cpu"))
    own = sum(4 * parameter.numel() for parameter in subject.model.parameters())
    assert subject.memory(Setting(batch=2), is_measured=True) == 4000 + own
    assert subject.memory(Setting(batch=2), is_measured=False) == peak_memory(SMALL["vit"], Setting(batch=2))


def test_designs_of_other_inputs_or_lengths() -> None:
    short = SMALL["gpt2"].with_options(max_position_embeddings=16)
    record = lf.bench(SMALL["gpt2"], against=short, what="latency", **QUICK)
    assert record.tokens == 16, "what all designs take"
    with pytest.raises(ValueError, match="takes other inputs than the original"):
        lf.bench(SMALL["gpt2"], against=SMALL["vit"], **QUICK)
    with pytest.raises(ValueError, match=r"original takes at most .* tokens, so no text of 1000000 can be decoded"):
        lf.bench(SMALL["gpt2"], decode=10**6, **QUICK)


def test_designs_that_differ_in_options_alone_are_all_timed() -> None:
    base = SMALL["vit"]
    others = [base.with_options(num_classes=count) for count in (100, 1000)]
    record = lf.bench(base, against=others, what="latency", **QUICK)
    assert [design.architecture for design in record.designs] == [base, *others]


def test_a_classifier_generates_no_text() -> None:
    record = lf.bench(SMALL["gpt2"].with_options(num_labels=2, pad_token_id=0), **QUICK)
    assert [one.workload for one in record.designs[0].timed] == ["training", "inference", "latency"]
    assert record.decoded is None


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((0.5, 0.48, 0.52), "0.50 [0.48, 0.52]"),
        ((1.0, 0.98, 1.02), "1.00 [0.98, 1.02]"),
        ((1.002, 1.001, 1.0035), "1.0020 [1.0010, 1.0035]"),
    ],
)
def test_ratios_show_whether_they_differ_from_1(ends: tuple[float, float, float], words: str) -> None:
    ratio = TimeRatio(mean=ends[0], low=ends[1], high=ends[2])
    assert ratio.words == words
    assert ratio.differs is not (ends[1] <= 1 <= ends[2])


def test_the_figure_shows_slower_designs_too() -> None:
    base = SMALL["vit"]
    record = lf.bench(base, against=["mlp_dim=8", "mlp_dim=256"], what="latency", **QUICK)
    for axes in record.plot().axes:
        left, right = axes.get_xlim()
        assert left == 0
        assert all(left <= x <= right for line in axes.lines for x in line.get_xdata())


def test_nothing_of_the_caller_is_changed() -> None:
    torch.manual_seed(3)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    record = lf.bench(SMALL["vit"], threads=threads + 1, **QUICK)
    assert record.machine.threads == threads + 1
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_designs_are_given_in_every_form(tmp_path: Path) -> None:
    base = SMALL["vit"]
    lf.save_pretrained(families.build(base), tmp_path / "saved")
    other = base.resized(mlp_dim=3 * base.stages[0].mlp_dim)
    for model in (str(tmp_path / "saved"), tmp_path / "saved", families.build(base)):
        record = lf.bench(model, against=["heads=1,regime=split", other, "recommended"], what="latency", **QUICK)
        assert record.designs[0].architecture.stages == base.stages
        assert record.designs[1].architecture.stages[0].heads == 1
        assert record.designs[2].architecture.stages == other.stages
        names = ["original", "heads=1,regime=split", str(other.stages[0]), "recommended"]
        assert [one.name for one in record.designs] == names
        assert [one.workload for one in record.designs[3].timed] == ["latency"]


def test_another_model_is_timed_beside_it(tmp_path: Path) -> None:
    """By name or by folder, such as the lean arm of a comparison."""
    lean = SMALL["vit"].resized(depth=1, heads=4)
    lf.save_pretrained(families.build(lean), tmp_path / "lean=4")
    record = lf.bench(SMALL["vit"], against=str(tmp_path / "lean=4"), what="latency", **QUICK)
    assert record.designs[1].architecture.stages == lean.stages
    assert record.designs[1].name == str(tmp_path / "lean=4")
    record = lf.bench("vit_tiny_patch16_224", against="deit_tiny_patch16_224", what="latency", **QUICK)
    assert [one.name for one in record.designs] == ["original", "deit_tiny_patch16_224"]
    with pytest.raises(ValueError, match="vit_smal"):
        lf.bench("vit_tiny_patch16_224", against="vit_smal", **QUICK)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"what": "speed"}, "what takes some of training, inference, latency, decoding, got 'speed'"),
        ({"what": "decoding"}, "decoding needs a model that predicts the next token, such as gpt2; small does not"),
        ({"what": "latency", "decode": 3}, "no text is decoded here, so decode has no meaning: timed are latency"),
        ({"checkpointing": "yes"}, "checkpointing must be true or false, got 'yes'"),
        ({"what": []}, "what takes some of training, inference, latency, decoding, got ''"),
        ({"what": 3}, "what must be words, got 3"),
        (
            {"against": 5},
            "against must be sizes, an architecture, a YAML file, .*, got 5",
        ),
        ({"batch": "8"}, "batch must be a whole number from 1 on, got '8'"),
        ({"decode": True}, "decode must be a whole number from 1 on, got True"),
        ({"seed": -1}, "seed must be a whole number from 0 on, got -1"),
        ({"device": "meta"}, "device 'meta' computes nothing"),
        ({"against": "depth=2"}, "against: depth=2 is the original"),
        ({"against": ["depth=1", {"depth": 1}]}, "against: depth=1 is there already"),
        ({"against": "layers=2"}, 'sizes are given as in "depth=4,heads=8,mlp_dim=128"'),
        ({"batch": 0}, "batch must be a whole number from 1 on, got 0"),
        ({"device": "abacus"}, "device 'abacus' cannot be used here: "),
        ({"precision": "float16"}, "precision must be one of float32, bfloat16, got 'float16'"),
        ({"threads": 0}, "threads must be a whole number from 1 on, got 0"),
        ({"seconds": -1}, "seconds must be a positive number, got -1"),
    ],
)
def test_mistakes(arguments: dict[str, Any], message: str) -> None:
    base = Architecture.from_dict({**SMALL["vit"].to_dict(), "name": SMALL["vit"].name})
    assert base.stages[0].depth == 2
    with pytest.raises(ValueError, match=message.replace("small", base.name)):
        lf.bench(base, **{**QUICK, **arguments})


def test_bench_as_a_user_runs_it(tmp_path: Path) -> None:
    lf.save_pretrained(families.build(SMALL["gpt2"]), tmp_path / "gpt2")
    arguments = [str(tmp_path / "gpt2"), "--seconds", "0.01", "--batch", "2", "--decode", "3", "--out", str(tmp_path)]
    shown = call("bench", *arguments, "--against", "mlp_dim=16", "--json")
    assert shown.returncode == 0, shown.stderr
    answer = json.loads(shown.stdout)
    assert [design["name"] for design in answer["designs"]] == ["original", "mlp_dim=16"]
    ratio = answer["designs"][1]["timed"][0]["ratio"]
    assert ratio["low"] <= ratio["mean"] <= ratio["high"]
    record = Bench.read(tmp_path / "bench.json")
    assert record.to_dict() == answer
    assert record.decoded == 3
    assert (tmp_path / "bench.png").is_file()
    assert {row["workload"] for row in record.to_frame().to_dict("records")} == set(WORKLOADS)
    table = call("bench", *arguments, "--against", "mlp_dim=16").stdout
    assert "decoding, 3 tokens" in table
    assert "tokens per second" in table
    assert "mlp_dim=16 has" in table
    alone = call("bench", *arguments[:-4], *arguments[-2:], "--what", "latency").stdout
    assert re.search(r"original: latency \S+ samples per second", alone)
    wrong = call("bench", *arguments, "--what", "speed")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("leanformer: --what takes some of training, inference, latency, decoding")
