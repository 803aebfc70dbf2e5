"""A training script in the manner of timm's train.py. `import leanformer` is the only line of it that is new.

By itself it trains any model that timm knows:

    python examples/timm_script.py --model vit_tiny_patch16_224 --seed 0 --out runs/one

leanformer compares with it. It runs the script once for every arm and seed, with a folder that holds the arm's fresh
model as --model, and reads the accuracy from the summary.json that the script writes into --out:

    leanformer compare --command "python examples/timm_script.py --model {model} --seed {seed} --out {folder}" \\
        --original examples/digits_vit.yaml --lean depth=2,heads=4,mlp_dim=32 --arms original,lean --seeds 2 \\
        --score-file summary.json --score-key eval.top1 --unit % --margin 2 --out runs/timm-script

digits_vit.yaml is a design as `leanformer design … --emit yaml` writes it, with options that fit the data.
"""

import argparse
import json
from pathlib import Path

import leanformer  # noqa: F401  timm now also knows folders with lean models
import timm
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser(description="Train an image model on digits.")
parser.add_argument("--model", required=True, help="a name that timm knows, or a folder with a model")
parser.add_argument("--out", type=Path, required=True, help="folder for summary.json")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--opt", default="adamw")
parser.add_argument("--lr", type=float, default=5e-3)
options = parser.parse_args()

torch.set_num_threads(1)  # so small a model is fastest on one core
torch.manual_seed(options.seed)
if Path(options.model).is_dir():  # classes, channels and image size are those of the saved model
    model = timm.create_model(f"local-dir:{options.model}", pretrained=True)
else:
    model = timm.create_model(options.model, num_classes=10, in_chans=1, img_size=8, patch_size=4)

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 8 - 1
labels = torch.tensor(digits.target)
train = DataLoader(TensorDataset(images[:1400], labels[:1400]), options.batch_size, shuffle=True, drop_last=True)
held_out = DataLoader(TensorDataset(images[1400:], labels[1400:]), options.batch_size)

optimizer = create_optimizer_v2(model, opt=options.opt, lr=options.lr, weight_decay=0.05)
steps = options.epochs * len(train)
scheduler = CosineLRScheduler(optimizer, steps, warmup_t=steps // 5, t_in_epochs=False)
step = 0
for epoch in range(options.epochs):
    model.train()
    for batch, target in train:
        scheduler.step_update(step)
        loss = F.cross_entropy(model(batch), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
    model.eval()
    with torch.no_grad():
        right = sum((model(batch).argmax(1) == target).sum().item() for batch, target in held_out)
    top1 = 100 * right / len(labels[1400:])
    print(f"epoch {epoch}: loss {loss.item():.3f}, top-1 {top1:.2f} %")

options.out.mkdir(parents=True, exist_ok=True)
(options.out / "summary.json").write_text(json.dumps({"epochs": options.epochs, "eval": {"top1": top1}}))
