"""What a run folder says of itself is checked: foreign checkpoints, changed results, leftovers of kills."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from leanformer.experiments.comparison import compare
from leanformer.experiments.summary import summarise
from leanformer.models.names import architecture_of
from leanformer.models.weights import from_pretrained
from leanformer.tasks.next_token import NextToken
from leanformer.training.checkpoints import Checkpoints
from leanformer.training.loop import train
from leanformer.training.result import Result, is_finished
from leanformer.training.run import Run, held_out_inputs, write_run
from leanformer.training.settings import Training
from support import tiny_run as trained
from support.command import call


def stopped_at(folder: Path, step: int, **settings: object) -> Path:
    """A run that was interrupted after so many steps."""
    return interrupted(trained.described(folder, **settings), step)


def interrupted(folder: Path, step: int) -> Path:
    class EnoughError(Exception):
        pass

    def stop(done: int, loss: float) -> None:
        if done == step:
            raise EnoughError

    with pytest.raises(EnoughError):
        train(folder, progress=stop)
    return folder


def test_a_checkpoint_of_another_seed_is_not_used(tmp_path: Path) -> None:
    whole = train(trained.described(tmp_path / "whole", steps=12))
    folder, other = (stopped_at(tmp_path / str(seed), 8, steps=12, seed=seed) for seed in (0, 1))
    newest = Checkpoints(folder / "checkpoints").steps()[-1]
    shutil.rmtree(folder / "checkpoints" / f"step-{newest:08d}")
    shutil.copytree(other / "checkpoints" / f"step-{newest:08d}", folder / "checkpoints" / f"step-{newest:08d}")
    said: list[str] = []
    assert train(folder, say=said.append) == whole
    assert "is damaged (it is of another run: seed is 1 there and 0 here): using the checkpoint before it" in said[0]


def test_a_checkpoint_of_another_model_or_without_a_part_is_not_used(tmp_path: Path) -> None:
    whole = train(trained.described(tmp_path / "whole", steps=12))
    folder = stopped_at(tmp_path / "cut", 8, steps=12)
    path = Checkpoints(folder / "checkpoints").path(Checkpoints(folder / "checkpoints").steps()[-1])
    sums = [line for line in (path / "SHA256SUMS").read_text().splitlines(True) if "optimizer" not in line]
    (path / "optimizer.safetensors").unlink()
    (path / "SHA256SUMS").write_text("".join(sums))
    said: list[str] = []
    assert train(folder, say=said.append) == whole
    assert "is damaged" in said[0]


def test_a_result_that_was_changed_is_found_and_made_again(tmp_path: Path) -> None:
    folder = trained.described(tmp_path, steps=6)
    whole = train(folder)
    written = json.loads((folder / "result.json").read_text())
    written["final"]["accuracy"] = 99.0
    (folder / "result.json").write_text(json.dumps(written))
    assert not is_finished(folder)
    with pytest.raises(ValueError, match=r"result.json is damaged: .*the final accuracy is 99.0"):
        Result.read(folder / "result.json")
    said: list[str] = []
    assert train(folder, say=said.append) == whole
    assert "training" in said[0]
    assert "makes it from the last checkpoint" in said[0]
    assert Result.read(folder / "result.json") == whole


def test_a_result_of_0_1_must_agree_with_its_last_evaluation() -> None:
    path = Path(__file__).parents[1] / "fixtures" / "v0.1" / "comparison" / "lean" / "seed-0" / "result.json"
    written = json.loads(path.read_text())
    Result.parse(written, "here")
    written["final"]["accuracy"] = 99.0
    with pytest.raises(ValueError, match=r"here is damaged: .*the final accuracy is 99.0, the last evaluation says"):
        Result.parse(written, "here")


def test_a_comparison_trains_a_run_again_whose_result_is_damaged(tmp_path: Path) -> None:
    first = compare(trained.recipe(), arms=["original", "lean"], seeds=1, out=tmp_path, jobs=1, report=False)
    (tmp_path / "lean" / "seed-0" / "result.json").write_text("{")
    with pytest.raises(ValueError, match=r"result.json is damaged: .* in line 1, column 2; training .* again makes it"):
        summarise(tmp_path)
    again = compare(trained.recipe(), arms=["original", "lean"], seeds=1, out=tmp_path, jobs=1, report=False)
    assert {arm: row.scores for arm, row in again.arms.items()} == {arm: row.scores for arm, row in first.arms.items()}


def test_what_kills_left_behind_is_removed(tmp_path: Path) -> None:
    folder = stopped_at(tmp_path, 8, steps=12)
    for left in (".step-00000099.part", ".step-00000003.part"):
        (folder / "checkpoints" / left).mkdir()
        (folder / "checkpoints" / left / "model.safetensors").write_bytes(b"half")
    train(folder)
    assert not list((folder / "checkpoints").glob(".*"))


def test_a_model_of_another_seed_is_found(tmp_path: Path) -> None:
    one, other = (trained.described(tmp_path / str(seed), steps=2, seed=seed) for seed in (0, 1))
    train(one), train(other)
    from_pretrained(one)
    (one / "model").rename(tmp_path / "aside")
    shutil.copytree(other / "model", one / "model")
    reason = rf"{one}/model/model.safetensors is not what {one}/result.json says it was: put that run's model back"
    for place in (one, one / "model"):
        with pytest.raises(ValueError, match=reason):
            from_pretrained(place)
    (one / "model" / "SHA256SUMS").unlink()  # as in a model of 0.1
    with pytest.raises(ValueError, match=reason):
        from_pretrained(one)
    (one / "result.json").unlink()
    train(one)
    from_pretrained(one)


def test_a_result_without_the_sums_of_its_model_is_read(tmp_path: Path) -> None:
    folder = trained.described(tmp_path, steps=2)
    result = train(folder)
    assert result.model_sums.keys() >= {"config.json", "model.safetensors"}
    before = result.changed(model_sums={}, data="").to_dict()
    for name in ("model_sums", "data"):
        before.pop(name)
    before["version"] = 2
    counted = {key: value for key, value in before.items() if key not in ("kind", "checksum")}
    before["checksum"] = hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()
    (folder / "result.json").write_text(json.dumps(before))
    assert Result.read(folder / "result.json") == result.changed(model_sums={}, data="")
    from_pretrained(folder)


# Data that changed


def on_folder(folder: Path, data: Path) -> Path:
    """A run on a folder of texts."""
    original = architecture_of("tinystories-gpt2", width=8, depth=1, heads=1, head_dim=8, mlp_dim=8, vocab_size=257)
    run = Run(
        name="lean",
        architecture=original,
        task=NextToken(dataset=str(data), length=8),
        training=Training(steps=4, batch=2, evaluations=1, probe=1, save_every=2),
    )
    write_run(run, folder)
    return folder


def texts(folder: Path, word: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "train.txt").write_text("\n\n".join(f"the {word} {number}" for number in range(20)))
    (folder / "test.txt").write_text("a held-out text that is long enough for a window")
    return folder


def test_a_run_does_not_continue_on_other_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "cache"))
    data = texts(tmp_path / "data", "cat")
    whole = train(on_folder(tmp_path / "whole", data))
    folder = interrupted(on_folder(tmp_path / "cut", data), 3)
    texts(data, "dog")
    said: list[str] = []
    with pytest.raises(ValueError, match=rf"^{folder} was begun on other data than .* holds now: put the data back"):
        train(folder, say=said.append)
    assert not said
    texts(data, "cat")
    assert train(folder, say=said.append) == whole
    assert said == ["lean, seed 0: resuming from step 2 of 4"]


def test_a_comparison_does_not_mix_data(tmp_path: Path) -> None:
    arms = ["original", "lean"]
    compare(trained.recipe(), arms=arms, seeds=1, out=tmp_path, jobs=1, report=False)
    lean = tmp_path / "lean" / "seed-0"
    read = Result.read(lean / "result.json")
    assert read.data
    read.changed(data="0" * 64).write(lean / "result.json")
    with pytest.raises(ValueError, match=rf"^{lean} was trained on other data than {tmp_path}/original/seed-0, so"):
        summarise(tmp_path)
    with pytest.raises(ValueError, match=rf"^{lean} was trained on other data than digits, .* holds now, so"):
        compare(trained.recipe(), arms=arms, seeds=1, out=tmp_path, jobs=1, report=False)
    read.changed(data="").write(lean / "result.json")  # of an older version
    compare(trained.recipe(), arms=arms, seeds=1, out=tmp_path, jobs=1, report=False)


# Files of another run


def test_a_description_of_another_run_is_found(tmp_path: Path) -> None:
    one, other = (train_in(tmp_path / str(seed), seed=seed) for seed in (0, 1))
    kept = (one / "result.json").read_bytes()
    shutil.copyfile(other / "run.json", one / "run.json")
    reason = rf"^{one}/run.json and {one}/result.json are of different runs: seed is 1 in the first, 0 in the second; "
    for use in (train, lambda folder: held_out_inputs(folder, 2)):
        with pytest.raises(ValueError, match=reason):
            use(one)
    assert (one / "result.json").read_bytes() == kept


def train_in(folder: Path, **settings: object) -> Path:
    train(trained.described(folder, steps=2, **settings))
    return folder


def test_a_result_of_another_comparison_is_found(tmp_path: Path) -> None:
    for name, lr in (("one", 1e-3), ("other", 2e-3)):
        small = trained.recipe(training=trained.training(steps=2, lr=lr, evaluations=1, save_every=None))
        compare(small, arms=["original"], seeds=1, out=tmp_path / name, jobs=1, report=False)
    place = Path("original", "seed-0", "result.json")
    shutil.copyfile(tmp_path / "other" / place, tmp_path / "one" / place)
    reason = rf"^{(tmp_path / 'one' / place).parent} holds the result of another run: training.lr is 0.002 there and "
    with pytest.raises(ValueError, match=reason):
        summarise(tmp_path / "one")


def test_a_run_of_a_comparison_whose_description_was_exchanged_is_refused(tmp_path: Path) -> None:
    compare(trained.recipe(), arms=["original", "lean"], seeds=2, steps=2, out=tmp_path, jobs=1, report=False)
    lean = tmp_path / "lean" / "seed-0"
    (lean / "result.json").unlink()
    assert call("train", str(lean)).returncode == 0, "resumed as it was planned"
    (lean / "result.json").unlink()
    (lean / "run.json").write_bytes((tmp_path / "lean" / "seed-1" / "run.json").read_bytes())
    refused = call("train", str(lean))
    assert refused.returncode == 2
    assert "describes another run than its comparison has planned: seed is 1 there and 0 here" in refused.stderr
