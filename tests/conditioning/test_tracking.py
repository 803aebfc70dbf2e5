"""Tracking κ along training: what is recorded, and that the trained weights are the same to the last bit."""

import contextlib
import csv
import json
import os
import warnings
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch
import torch.multiprocessing as mp
import transformers
from lightning.pytorch.loggers import CSVLogger
from torch import nn

import leanformer as lf
from leanformer.conditioning.callbacks import lightning_callback, trainer_callback
from leanformer.conditioning.tracking import Tracker
from leanformer.foundation.records.files import plain
from leanformer.models import families
from support.architectures import SMALL
from support.training_loop import train, train_distributed


def assert_same_weights(a: nn.Module, b: nn.Module) -> None:
    for (name, x), y in zip(a.state_dict().items(), b.state_dict().values(), strict=True):
        assert torch.equal(x, y), name


@pytest.mark.parametrize("key", ["vit", "davit", "xcit", "story-gpt", "gpt2", "bert", "nystromformer"])
def test_weights_are_bit_identical_with_and_without(key: str) -> None:
    plain_model, _ = train(key)
    tracked_model, tracker = train(key, tracked=True)
    assert_same_weights(plain_model, tracked_model)
    assert [record["step"] for record in tracker.records] == [0, 2, 4, 6]


def test_beside_autocast_and_gradient_checkpointing() -> None:
    def checkpointing(model: nn.Module) -> nn.Module:
        model.set_grad_checkpointing(True)
        return model

    plain_model, _ = train("vit", autocast=True, wrap=checkpointing)
    tracked_model, tracker = train("vit", autocast=True, wrap=checkpointing, tracked=True)
    assert_same_weights(plain_model, tracked_model)
    assert tracker.records[0]["layers"][0]["limited_by_dtype"] == 0  # measured in float32


def test_beside_torch_compile() -> None:
    def compiled(model: nn.Module) -> nn.Module:
        return torch.compile(model, backend="aot_eager")

    torch._dynamo.reset()
    plain_model, _ = train("vit", wrap=compiled)
    torch._dynamo.reset()
    tracked_model, tracker = train("vit", wrap=compiled, tracked=True)
    assert_same_weights(plain_model, tracked_model)
    assert len(tracker.records) == 4
    torch._dynamo.reset()
    batch = families.example_inputs(SMALL["vit"])
    _, tracker = train("vit", wrap=compiled, tracked=True, batch=batch)
    assert len(tracker.records) == 4


def test_records_follow_the_papers_protocol(tmp_path: Path) -> None:
    batch = families.example_inputs(SMALL["vit"], batch=5)
    _, tracker = train("vit", tracked=True, batch=batch, path=tmp_path / "deep" / "kappa.jsonl")
    record = tracker.records[-1]
    means = [layer["kappa"]["mean"] for layer in record["layers"]]
    assert record["mean_over_layers"] == pytest.approx(sum(means) / len(means))
    assert {"median", "lower_quartile", "upper_quartile", "mean", "max"} == record["layers"][0]["kappa"].keys()
    written = [json.loads(line) for line in (tmp_path / "deep" / "kappa.jsonl").read_text().splitlines()]
    assert written == tracker.records
    assert tracker.records[0]["layers"][0]["kappa"] != record["layers"][0]["kappa"]


def test_only_the_models_own_optimizer_counts() -> None:
    model, other = families.build(SMALL["vit"]), nn.Linear(2, 2)
    with lf.track(model, families.example_inputs(SMALL["vit"]), every=1) as tracker:
        optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
        other(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert tracker.step == 0
    assert len(tracker.records) == 1
    optimizer.step()
    assert tracker.step == 0


def test_two_optimizers_are_one_step() -> None:
    model, inputs = families.build(SMALL["vit"]), families.example_inputs(SMALL["vit"])
    halves = list(model.parameters())
    optimizers = [torch.optim.SGD(halves[:5], lr=0.1), torch.optim.SGD(halves[5:], lr=0.1)]
    with lf.track(model, every=1) as tracker:
        for _ in range(3):
            model(**inputs).square().mean().backward()
            for optimizer in optimizers:
                optimizer.step()
    assert [record["step"] for record in tracker.records] == [0, 1, 2, 3]


def test_what_cannot_be_measured_does_not_stop_training() -> None:
    model, inputs = families.build(SMALL["vit"]), families.example_inputs(SMALL["vit"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with lf.track(model, every=1) as tracker:
        model(**inputs).square().mean().backward()
        nn.init.constant_(model.blocks[1].attn.qkv.weight, float("nan"))
        with pytest.warns(UserWarning, match="κ was not measured at step 1: blocks.1.attn: 2 of 2 matrices hold NaN"):
            optimizer.step()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # once is enough
            optimizer.step()
    assert "blocks.1.attn: 2 of 2 matrices hold NaN" in tracker.records[1]["error"]
    assert [record["step"] for record in tracker.records] == [0, 1, 2]


def test_a_model_without_attention_is_reported_at_once() -> None:
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)), torch.randn(2, 5, 8)
    with pytest.raises(ValueError, match=r"no attention was seen in Sequential: .*projections="), lf.track(model, x):
        pytest.fail("the training began")
    with pytest.raises(ValueError, match="no attention was seen in Sequential") as raised, lf.track(model):
        model(x)
    assert "\n" not in str(raised.value)
    with pytest.raises(ValueError, match=r"no module of Sequential matches"), lf.track(model, projections="*.out"):
        model(x)


class Own(nn.Module):
    """A block of one's own, which no module gives away."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        return x + self.out(nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))


def test_own_models_are_tracked_through_their_attention_calls() -> None:
    def trained(tracked: bool) -> tuple[nn.Module, list[dict]]:
        torch.manual_seed(0)
        model, x = nn.Sequential(Own(), nn.Dropout(0.1), Own()), torch.randn(3, 6, 8)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        with lf.track(model, every=2) if tracked else contextlib.nullcontext() as tracker:
            for _ in range(4):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
        return model, tracker.records if tracker else []

    (plain_model, _), (model, records) = trained(False), trained(True)
    assert_same_weights(plain_model, model)
    assert [(record["step"], [layer["name"] for layer in record["layers"]]) for record in records] == [
        (0, ["0", "2"]),
        (2, ["0", "2"]),
        (4, ["0", "2"]),
    ]


class NeedsLabels(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = families.build(SMALL["vit"])

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.model(x), labels)


def test_labels_that_the_model_needs_are_kept() -> None:
    model, inputs = NeedsLabels(), families.example_inputs(SMALL["vit"])
    with lf.track(model, every=1) as tracker:
        model(inputs["x"], labels=torch.tensor([1, 2])).backward()
    assert len(tracker.records[0]["layers"]) == 2


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="every must be at least 1 step, got 0"):
        Tracker(families.build(SMALL["vit"]), every=0)
    assert plain({"a": [float("inf"), 1.0]}) == {"a": ["inf", 1.0]}


def test_the_first_process_measures_under_ddp(tmp_path: Path) -> None:
    port = 20000 + os.getpid() % 20000
    mp.spawn(train_distributed, (port, str(tmp_path)), nprocs=2)
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert (first[0], second[0]) == (4, 0)
    assert first[1] == second[1]


class Numbers(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> dict:
        generator = torch.Generator().manual_seed(index)
        ids = torch.randint(101, (16,), generator=generator)
        return {"input_ids": ids, "labels": ids}


def test_hugging_face_trainer(tmp_path: Path) -> None:
    batch = {"input_ids": torch.randint(101, (3, 16))}

    def run(callbacks: list) -> tuple[nn.Module, list[dict]]:
        torch.manual_seed(0)
        model = families.build(SMALL["gpt2"])
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path),
            num_train_epochs=1,
            per_device_train_batch_size=4,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
            logging_steps=3,
        )
        trainer = transformers.Trainer(model, arguments, train_dataset=Numbers(), callbacks=callbacks)
        trainer.train()
        return model, trainer.state.log_history

    class Tracking(transformers.TrainerCallback):
        """What a tracker that comes later gets."""

        def on_log(self, args: object, state: object, control: object, logs: dict | None = None, **_: object) -> None:
            logs_of_trackers.append(dict(logs or {}))

    callback, logs_of_trackers = trainer_callback(batch, every=2), []
    (plain_model, _), (model, history) = run([]), run([callback, Tracking()])
    assert_same_weights(plain_model, model)
    records = callback.tracker.records
    assert [record["step"] for record in records] == [0, 2, 4, 6]
    assert records[-1]["epoch"] == pytest.approx(1.0)
    logged = [entry for entry in history if "kappa/median_over_layers" in entry]
    assert [entry["step"] for entry in logged] == [0, 2, 4, 6]
    for entry, record in zip(logged, records, strict=True):
        assert entry["kappa/mean_over_layers"] == record["mean_over_layers"]
        assert entry["kappa/transformer.h.1.attn"] == record["layers"][1]["kappa"]["median"]
    assert [entry.get("kappa/mean_over_layers") for entry in logs_of_trackers if "loss" in entry] == [
        records[1]["mean_over_layers"],
        records[3]["mean_over_layers"],
    ]


class Lit(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = families.build(SMALL["vit"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x)

    def training_step(self, batch: torch.Tensor, _: int) -> torch.Tensor:
        return self(batch).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def test_lightning(tmp_path: Path) -> None:
    images = families.example_inputs(SMALL["vit"], batch=20)["x"]

    def run(callbacks: list) -> tuple[nn.Module, pl.Trainer]:
        pl.seed_everything(0, verbose=False)
        module = Lit()
        trainer = pl.Trainer(
            max_epochs=1,
            logger=CSVLogger(tmp_path, name="", version=str(len(callbacks))),
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            accelerator="cpu",
            default_root_dir=tmp_path,
            callbacks=callbacks,
        )
        trainer.fit(module, torch.utils.data.DataLoader(images, batch_size=4))
        return module, trainer

    callback = lightning_callback(images[:3], every=2)
    (plain_model, _), (model, trainer) = run([]), run([callback])
    assert_same_weights(plain_model, model)
    records = callback.tracker.records
    assert [record["step"] for record in records] == [0, 2, 4, 5]
    assert records[0]["layers"][0]["name"] == "model.blocks.0.attn"
    metrics = trainer.callback_metrics
    assert metrics["kappa/mean_over_layers"].item() == pytest.approx(records[-1]["mean_over_layers"], rel=1e-6)
    assert metrics["kappa/model.blocks.1.attn"].item() == pytest.approx(records[-1]["layers"][1]["kappa"]["median"])
    rows = list(csv.DictReader((tmp_path / "1" / "metrics.csv").read_text().splitlines()))
    written = {int(row["step"]): float(row["kappa/median_over_layers"]) for row in rows}
    assert written == {record["step"]: pytest.approx(record["median_over_layers"]) for record in records}
