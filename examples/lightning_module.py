"""Lightning, compared: a LightningModule around each arm's model, with κ in Lightning's own log.

    python examples/lightning_module.py
    python examples/lightning_module.py --epochs 10 --seeds 5

Each run's folder has Lightning's metrics.csv. The page with figures is runs/lightning-module/report.html.
"""

import argparse
import logging
from pathlib import Path

import leanformer as lf
import lightning
import torch
import torch.nn.functional as F
from lightning.pytorch.loggers import CSVLogger
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser(description="Compare two ViTs around Lightning.")
parser.add_argument("--epochs", type=int, default=5, help="epochs of a run")
parser.add_argument("--seeds", type=int, default=2, help="runs of each model")
parser.add_argument("--out", default="runs/lightning-module", help="folder of the comparison")
options = parser.parse_args()

torch.set_num_threads(1)  # so small a model is fastest on one core
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 8 - 1
labels = torch.tensor(digits.target)


class Digits(lightning.LightningModule):
    """The user's module. Its model is given, and everything else is as ever."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Tensor) -> Tensor:
        return self.model(batch)

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        inputs, target = batch
        return F.cross_entropy(self(inputs), target)

    def validation_step(self, batch: tuple[Tensor, Tensor]) -> None:
        inputs, target = batch
        self.log("accuracy", 100 * (self(inputs).argmax(1) == target).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=5e-3)


def fit(model: nn.Module, seed: int, folder: Path) -> float:
    train = DataLoader(TensorDataset(images[:1400], labels[:1400]), batch_size=64, shuffle=True)
    held_out = DataLoader(TensorDataset(images[1400:], labels[1400:]), batch_size=397)
    trainer = lightning.Trainer(
        max_epochs=options.epochs,
        log_every_n_steps=20,
        accelerator="cpu",
        logger=CSVLogger(folder, name=None),
        callbacks=[lf.lightning_callback(images[:8], every=20)],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Digits(model), train, held_out)
    found = trainer.callback_metrics
    print(f"{folder}: accuracy {found['accuracy']:.1f} %, κ {found['kappa/median_over_layers']:,.0f}")
    return found["accuracy"].item()


logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
original = lf.architecture_of(
    "vit_tiny_patch16_224",
    img_size=8,
    patch_size=4,
    in_chans=1,
    num_classes=10,
    width=32,
    depth=4,
    heads=2,
    head_dim=16,
    mlp_dim=64,
)
record = lf.compare(
    train=fit,
    original=original,
    lean="depth=2,heads=4,mlp_dim=32",
    arms="original,lean",
    metric=lf.Metric("accuracy", "%"),
    margin=2.0,
    seeds=options.seeds,
    out=options.out,
)
print(record.to_frame()[["arm", "params", "score", "kappa"]])
print(record.verdict.words)
