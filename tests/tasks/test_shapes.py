"""Shapes: the annotations of every task hold, as beartype checks them while batches pass through models."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.glue import write_corpus, write_glue

CHECKED = """
import sys
from importlib import import_module
from pkgutil import iter_modules
import torch
from jaxtyping import TypeCheckError, install_import_hook
import leanformer.tasks

# All else is imported before: what is compiled beside checked modules is kept as if it were checked itself.
names = [f"leanformer.tasks.{found.name}" for found in iter_modules(leanformer.tasks.__path__)]
for name in names:
    import_module(name)
for name in [name for name in sys.modules if name.startswith("leanformer.tasks")]:
    del sys.modules[name]
with install_import_hook("leanformer.tasks", "beartype.beartype"):
    tasks = import_module("leanformer.tasks")
    for name in names:
        import_module(name)
sequence_classes = sys.modules["leanformer.tasks.sequence_classes"]

from leanformer.data.order import Order, Share
from leanformer.models import families, names

place = sys.argv[1]
nystrom = dict(max_position_embeddings=64, landmarks=8, depth=1)
bert = dict(width=16, depth=1, heads=2, head_dim=8, mlp_dim=32, max_position_embeddings=64)
image = dict(depth=1, heads=2, head_dim=8, mlp_dim=32, width=16, patch_size=4)
ALL = [
    (tasks.ImageClasses(shift=1, flip=True), "vit_tiny_patch16_224", image),
    (tasks.ImageClasses(mixup=0.8), "vit_tiny_patch16_224", image),
    (tasks.ImageClasses(auto_augment="rand-m9", img_size=8, workers=0), "vit_tiny_patch16_224", image),
    (tasks.PixelClasses(), "nystromformer-image", nystrom),
    (tasks.ByteClasses(dataset=f"{place}/texts", length=64), "nystromformer-text", nystrom),
    (tasks.PairClasses(dataset=f"{place}/pairs", length=64), "nystromformer-retrieval", nystrom),
    (tasks.ListOps(min_length=5, max_length=64, train=8, validation=4, test=4), "nystromformer-listops", nystrom),
    (tasks.NextToken(length=16), "gpt2", dict(depth=1, heads=2, head_dim=8, mlp_dim=32, width=16)),
    (tasks.MaskedToken(dataset=f"{place}/words.txt", tokenizer="wordpiece:300", length=16), "crammed-bert", bert),
    (tasks.SentenceClasses(name="rte", root=place, tokenizer="wordpiece:300", length=16), "crammed-bert", bert),
    (tasks.SentenceClasses(name="stsb", root=place, tokenizer="wordpiece:300", length=16), "crammed-bert", bert),
    (tasks.FarthestPoint(dim=4, points=4, held_out=4), "farthest-point", dict(width=4)),
]
for task, name, sizes in ALL:
    data = task.load()
    model = families.build(names.architecture_of(name, **{**sizes, **data.options})).eval()
    batch = next(data.batches(Order(0, 4, data.size), range(1), Share()))
    assert data.loss(model, batch).ndim == 0
    assert data.score(data.evaluate(model, Share(), torch.device("cpu")))
    data.evaluate_final(model, Share(), torch.device("cpu"))
    data.probe_batch(2)
    print(type(task).__name__)
try:  # the check is on: labels of another number of samples are refused
    sequence_classes._logits(model, torch.zeros(4, 8, dtype=torch.int64), torch.zeros(3, dtype=torch.int64))
except TypeCheckError:
    print("checked")
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_corpus(tmp_path / "words.txt")
    write_glue(tmp_path, "rte", rows=8)
    write_glue(tmp_path, "stsb", rows=8)
    for folder in ("texts", "pairs"):
        (tmp_path / folder).mkdir()
    for split in ("train", "eval", "test"):
        texts = "".join(f"text number {index}\t{index % 2}\n" for index in range(60))
        (tmp_path / "texts" / f"{split}.tsv").write_text("text\tlabel\n" + texts)
        pairs = "".join(f"{index % 2}\ta\tb\tfirst {index}\tsecond {index}\n" for index in range(6))
        (tmp_path / "pairs" / f"aan.{split}.tsv").write_text(pairs)
    return tmp_path


def test_tensors_have_the_shapes_that_are_written(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEANFORMER_CACHE", str(place / "cache"))
    found = subprocess.run([sys.executable, "-c", CHECKED, str(place)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-3000:]
    assert found.stdout.split()[-2:] == ["FarthestPoint", "checked"]
    assert len(found.stdout.split()) == 13
