"""Trained classifiers say what their classes are called."""

import json
from pathlib import Path

import pytest

import leanformer as lf
from leanformer.data.glue import GLUE_TASKS
from leanformer.models import names as zoo
from leanformer.tasks.listops import ListOps
from leanformer.tasks.pathfinder import Pathfinder
from leanformer.tasks.sentence_classes import SentenceClasses
from leanformer.tasks.sequence_classes import SequenceData
from leanformer.training.loop import train
from leanformer.training.run import Run, write_run
from leanformer.training.settings import Training
from support.glue import write_glue


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "cache"))


def test_a_trained_text_classifier_has_names_for_its_classes(tmp_path: Path) -> None:
    write_glue(tmp_path, "sst2")
    task = SentenceClasses(name="sst2", root=str(tmp_path), tokenizer="wordpiece:300", length=16)
    sizes = dict(width=16, depth=1, heads=2, head_dim=8, mlp_dim=16)
    design = zoo.architecture_of("crammed-bert", **sizes, **task.load().options)
    training = Training(steps=2, batch=4, evaluations=1, probe=0)
    write_run(Run(name="lean", architecture=design, task=task, training=training), tmp_path / "run")
    train(tmp_path / "run")
    config = json.loads((tmp_path / "run" / "model" / "config.json").read_text())
    assert config["id2label"] == {"0": "negative", "1": "positive"}
    assert lf.from_pretrained(tmp_path / "run").config.id2label == {0: "negative", 1: "positive"}
    assert (tmp_path / "run" / "model" / "tokenizer.json").is_file()


def test_tasks_name_their_classes() -> None:
    small = dict(train=4, validation=2, test=2)
    listops = ListOps(min_length=5, max_length=20, **small).load()
    assert listops.preprocessing() == {"label_names": list("0123456789")}
    assert Pathfinder(**small).load().preprocessing() == {"label_names": ["not connected", "connected"]}
    for task in GLUE_TASKS.values():
        assert len(task.names) == (task.classes if task.classes > 1 else 0)


def test_names_that_do_not_fit_the_classes_are_not_stated() -> None:
    """A run must not fail at its end because of a name."""
    listops = ListOps(min_length=5, max_length=20, train=4, validation=2, test=2).load()
    parts = (listops.train, listops.validation, listops.test)
    assert SequenceData("here", parts, 20, {"num_labels": 3}, names=("a", "b")).preprocessing() is None
