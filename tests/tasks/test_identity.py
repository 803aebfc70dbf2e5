"""Data identity: the first batches are those of version 0.1, sample by sample."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch

from leanformer import tasks
from leanformer.data.order import Order, Share


@pytest.mark.parametrize(
    ("settings", "digest"),
    [
        (dict(kind="pixels"), "f01b4f5430aceab5"),
        (dict(kind="listops", min_length=20, max_length=100, train=200, validation=30, test=30), "0243caf0dbc6b75e"),
        (dict(kind="text", dataset="texts", length=24), "d178626c56a7387b"),
        (dict(kind="retrieval", dataset="pairs", length=12), "d59fc15732ab289b"),
        (dict(kind="stories", dataset="words.txt", length=16), "f8fb94227906755b"),
        (dict(kind="images", shift=2, flip=True), "9601de8973536651"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_first_batches(settings: dict[str, Any], digest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    texts = [f"text number {index} é {'word ' * (index % 9)}" for index in range(80)]
    Path("words.txt").write_text("\n\n".join(texts), encoding="utf-8")
    for folder in ("texts", "pairs"):
        Path(folder).mkdir()
    for split in ("train", "eval", "test"):
        rows = "".join(f"{text}\t{index % 3}\n" for index, text in enumerate(texts))
        Path(f"texts/{split}.tsv").write_text("text\tlabel\n" + rows, encoding="utf-8")
        rows = "".join(f"{index % 2}.0\ta\tb\t{text}\t{text[::-1]}\n" for index, text in enumerate(texts))
        Path(f"pairs/aan.{split}.tsv").write_text(rows, encoding="utf-8")
    data = tasks.read(settings).load()
    order = Order(3, 8, data.size)
    shown = [*data.batches(order, range(3), Share()), *data.batches(order, range(200, 201), Share(1, 2))]
    found = hashlib.sha256()
    for batch in shown:
        for tensor in batch:  # normalised images are floats: back to the bytes they were
            whole = tensor if not tensor.is_floating_point() else tensor * data.spread + data.mean  # type: ignore[attr-defined]
            found.update(whole.round().to(torch.int64).contiguous().numpy().tobytes())
    assert found.hexdigest()[:16] == digest
