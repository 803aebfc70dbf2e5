"""GLUE after pre-training: models that are handed on, and tasks without data that are named."""

from pathlib import Path
from typing import Any

import pytest
import torch

from leanformer.experiments.comparison import compare
from leanformer.experiments.glue import glue
from leanformer.experiments.recipe import Recipe
from leanformer.models import names as zoo
from leanformer.models.weights import from_pretrained
from leanformer.report import glue as report
from leanformer.tasks.masked_token import MaskedToken
from leanformer.training.settings import Training
from support.command import call
from support.glue import write_corpus, write_glue

COMMAND = ["--set", "task.length=32", "--set", "training.lr=0.0", "--budget", "epochs=1", "--jobs", "1", "--data"]
SMALL: dict[str, Any] = dict(width=16, depth=2, heads=2, head_dim=8, mlp_dim=32, max_position_embeddings=64)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("LEANFORMER_DATA", raising=False)


def test_pre_training_is_handed_on_and_missing_tasks_are_named(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "words.txt")
    original = zoo.architecture_of("crammed-bert", **SMALL)
    pretraining = Recipe(
        name="small",
        task=MaskedToken(dataset=str(corpus), tokenizer="wordpiece:300", length=32),
        original=original,
        lean=original.resized(depth=1, heads=4, keep="width"),
        training=Training(steps=4, batch=8, lr=1e-2, evaluations=1, probe=0),
        margin=1.0,
    )
    start = tmp_path / "pretrained"
    compare(pretraining, out=start, seeds=2, jobs=1, report=False)
    write_glue(tmp_path, "rte")
    write_glue(tmp_path, "stsb")
    write_glue(tmp_path, "qnli", splits=("validation",))
    said: list[str] = []
    choices: dict[str, Any] = dict(
        data=str(tmp_path), settings=["task.length=32", "training.lr=0.0"], budget="epochs=1"
    )
    record = glue(
        start, tasks=["rte", "qnli", "stsb"], out=tmp_path / "glue-out", seeds=3, jobs=1, say=said.append, **choices
    )
    assert list(record.tasks) == ["rte", "stsb"]
    assert list(record.missing) == ["qnli"]
    assert any(line.startswith("qnli is left out: ") for line in said)
    assert record.average["lean"].seeds == 3
    assert record.sentences()[-1].startswith("missing, and not in the average: qnli")
    assert "average of 2" in report.markdown(record)
    shown = call(
        "glue", str(start), "--tasks", "rte,stsb", "--out", str(tmp_path / "glue-out"), *COMMAND, str(tmp_path)
    )
    assert shown.returncode == 0, shown.stderr
    assert "is complete: nothing to train" in shown.stderr
    assert "rte (accuracy)" in shown.stdout
    assert (tmp_path / "glue-out" / "glue.md").is_file()
    wrong = call("glue", str(start), "--tasks", "wnli")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "there is no GLUE task wnli; there are mnli, sst2" in wrong.stderr
    # With a learning rate of 0 the fine-tuned encoder is the pre-trained one of the same arm and seed.
    for seed, taught in ((0, 0), (1, 1), (2, 0)):
        before = from_pretrained(start / "lean" / f"seed-{taught}").state_dict()
        after = from_pretrained(tmp_path / "glue-out" / "rte" / "lean" / f"seed-{seed}").state_dict()
        for name in after:
            if name.startswith("encoder."):
                assert torch.equal(after[name], before[name]), name
    with pytest.raises(ValueError, match=r"nowhere is not the folder of a comparison: it has no plan\.json"):
        glue(tmp_path / "nowhere", tasks=["rte"])
    with pytest.raises(ValueError, match="there is no GLUE task wnli"):
        glue(start, tasks=["wnli"])
