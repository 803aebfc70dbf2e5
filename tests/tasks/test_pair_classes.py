"""Classes of pairs of documents."""

from pathlib import Path

import pytest
import torch

from leanformer.conditioning.probing import measure
from leanformer.data.order import Order, Share
from leanformer.models import families
from leanformer.models import names as zoo
from leanformer.tasks.pair_classes import PairClasses


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("LEANFORMER_CACHE", str(folder))
    monkeypatch.delenv("LEANFORMER_DATA", raising=False)
    return folder


def test_pairs_of_documents(tmp_path: Path) -> None:
    folder = tmp_path / "aan"
    folder.mkdir()
    for word, count in (("train", 6), ("eval", 3), ("test", 2)):
        lines = [f"{i % 2}.0\tA{i}\tB{i}\tfirst {i}\tsecond {i}" for i in range(count)]
        (folder / f"new_aan_pairs.{word}.tsv").write_text("\n".join(lines) + "\n")
    data = PairClasses(root=str(tmp_path), length=12).load()
    ids, lengths, labels = next(data.batches(Order(0, 6, 6), range(1), Share()))
    assert ids.shape == (6, 2, 12)
    assert sorted(labels.tolist()) == [0, 0, 0, 1, 1, 1]
    assert lengths.tolist() == [[7, 8]] * 6
    design = zoo.architecture_of("nystromformer-retrieval", max_position_embeddings=12, landmarks=4)
    model = families.build(design).eval()
    assert torch.isfinite(data.loss(model, (ids, lengths, labels)))
    assert measure(model, data.probe_batch(2)).layers[0].values.kappa.shape == (4,)
    (folder / "new_aan_pairs.eval.tsv").write_text("1\tA\tB\tonly one text\n")
    with pytest.raises(ValueError, match=r"eval\.tsv, line 1: 4 columns instead of 5 \(label, first, second,"):
        PairClasses(root=str(tmp_path), length=12).load()
    (folder / "new_aan_pairs.eval.tsv").write_text("2\tA\tB\tx\ty\n")
    with pytest.raises(ValueError, match=r"line 1: a label is 0 or 1, got 2"):
        PairClasses(root=str(tmp_path), length=12).load()
    with pytest.raises(ValueError, match=r"aan is not on this machine, and the hub does not have it"):
        PairClasses().load()
