"""ListOps as a task: from expressions to a loss that ignores padding."""

from pathlib import Path

import pytest
import torch

from leanformer import tasks
from leanformer.data.order import Order, Share
from leanformer.models import families
from leanformer.models import names as zoo
from leanformer.tasks.listops import ListOps


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("LEANFORMER_CACHE", str(folder))
    monkeypatch.delenv("LEANFORMER_DATA", raising=False)
    return folder


def test_listops_end_to_end_and_padding_does_not_count() -> None:
    task = ListOps(min_length=5, max_length=40, train=64, validation=8, test=8)
    data = task.load()
    design = zoo.architecture_of("nystromformer-listops", max_position_embeddings=40, landmarks=8).resized(depth=1)
    torch.manual_seed(0)
    model = families.build(design).eval()
    ids, lengths, labels = next(data.batches(Order(0, 16, 64), range(1), Share()))
    before = data.loss(model, (ids, lengths, labels))
    scrambled = torch.where(torch.arange(40) < lengths[:, None], ids, torch.randint(0, 16, ids.shape))
    assert torch.allclose(data.loss(model, (scrambled, lengths, labels)), before, atol=1e-6)
    tested, validated = (
        data.evaluate_final(model, Share(), torch.device("cpu")),
        data.evaluate(model, Share(), ids.device),
    )
    assert tested["count"] == validated["count"] == 8
    assert tested["loss"] != validated["loss"]
    assert tasks.read(task.to_dict()) == task
