"""Image tasks: where the data come from, that parts make up the whole, and messages about bad data."""

import gzip
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits
from timm.data import Mixup
from torch import nn

from leanformer.data.order import Order, Share
from leanformer.tasks.image_classes import DecodedImages, ImageClasses, ImageClassesData, seeded
from support.amount import some


def draw(path: Path, value: int, size: tuple[int, int] = (8, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (value, value // 2, 0)).save(path)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes, six training and four held-out images each."""
    for split, count in (("train", 6), ("val", 4)):
        for label, name in enumerate(("cat", "dog")):
            for index in range(count):
                draw(tmp_path / split / name / f"{index}.png", 100 * label + 10 * index)
    return tmp_path


def batch(
    data: ImageClassesData, step: int = 0, size: int = 8, part: Share | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    return next(data.batches(Order(3, size, data.size), range(step, step + 1), part or Share()))  # type: ignore[return-value]


# Sources


def test_digits_are_embedded() -> None:
    data = ImageClasses().load()
    assert (data.size, len(data.held_out), data.source) == (1438, 359, "digits, embedded in scikit-learn")
    assert data.options == {"num_classes": 10, "in_chans": 1, "img_size": 8}
    images, labels = batch(data, size=1000)
    assert images.mean().abs() < 0.05
    assert 0.9 < images.std() < 1.1
    assert set(labels.tolist()) == set(range(10))


def test_a_folder_of_classes(folder: Path) -> None:
    data = ImageClasses(dataset=str(folder)).load()
    assert (data.size, len(data.held_out), data.classes) == (12, 8, 2)
    assert data.source == f"the folder {folder}"
    assert data.images[7].flatten(1)[:, 0].tolist() == [110, 55, 0]
    assert data.found.train.labels.tolist() == [0] * 6 + [1] * 6


def test_without_a_held_out_split_a_tenth_is_held_out(tmp_path: Path) -> None:
    for index in range(20):
        draw(tmp_path / "train" / "abc"[index % 3] / f"{index}.png", index)
    data = ImageClasses(dataset=str(tmp_path)).load()
    assert (data.size, len(data.held_out)) == (17, 3)
    assert data.source.endswith("10 % of it held out here")
    assert sorted(data.found.held_out.labels.tolist()) == [0, 1, 2], "of each class"
    seen = {int(image[0, 0, 0]) for split in (data.images, data.held_out) for image in split}
    assert seen == set(range(20))


def test_idx_files_plain_and_packed(tmp_path: Path) -> None:
    for kind, count in (("train", 5), ("t10k", 2)):
        images = np.arange(count * 9, dtype=np.uint8)
        header = bytes([0, 0, 8, 3]) + np.array([count, 3, 3], ">u4").tobytes()
        (tmp_path / f"{kind}-images-idx3-ubyte").write_bytes(header + images.tobytes())
        labels = bytes([0, 0, 8, 1]) + np.array([count], ">u4").tobytes() + bytes(range(count))
        (tmp_path / f"{kind}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    data = ImageClasses(dataset=str(tmp_path)).load()
    assert data.images[4, 0].tolist() == [[36, 37, 38], [39, 40, 41], [42, 43, 44]]
    assert data.found.held_out.labels.tolist() == [0, 1]
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(b"\0\0")
    with pytest.raises(ValueError, match="t10k-images-idx3-ubyte is not a readable idx file"):
        ImageClasses(dataset=str(tmp_path)).load()


def _parquet(path: Path, rows: Sequence[tuple[bytes, int]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    cells = [{"bytes": content, "path": None} for content, _ in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"img": cells, "label": [label for _, label in rows]}), path)


def _png(value: int) -> bytes:
    import io

    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), (value, 0, 0)).save(buffer, "PNG")
    return buffer.getvalue()


def test_parquet_under_the_data_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _parquet(tmp_path / "cifar10" / "plain_text" / "train-0.parquet", [(_png(i), i % 10) for i in range(20)])
    _parquet(tmp_path / "cifar10" / "plain_text" / "test-0.parquet", [(_png(200), 3)])
    monkeypatch.setenv("LEANFORMER_DATA", str(tmp_path))
    data = ImageClasses(dataset="cifar10").load()
    assert (data.size, data.classes, data.options["img_size"]) == (20, 10, 4)
    assert data.source == "parquet files in $LEANFORMER_DATA/cifar10"
    assert data.images[13, 0, 0, 0] == 13
    assert data.held_out[0, 0, 0, 0] == 200


def test_the_real_cifar10() -> None:
    root = os.environ.get("LEANFORMER_DATA")
    if root is None or not (Path(root) / "cifar10").is_dir():
        return  # the data are not committed; .ci/run has them, and the test above has the same form
    found = ImageClasses(dataset="cifar10").find()
    assert (len(found.train), len(found.held_out), found.classes) == (50_000, 10_000, 10)
    assert torch.bincount(found.train.labels).tolist() == [5_000] * 10
    rows = some(range(50_000), 5_000)
    small = replace(found, train=found.train.chosen(np.array(rows)), held_out=found.held_out.chosen(np.arange(100)))
    decoded = np.stack([np.asarray(image) for image in small.train.images])
    assert decoded.shape == (len(rows), 32, 32, 3)
    assert decoded.mean((0, 1, 2)).tolist() == pytest.approx([125.3, 123.0, 113.9], abs=3)  # the published means


# Batches


@pytest.mark.parametrize("settings", [{}, {"shift": 2, "flip": True}, {"mixup": 0.8, "cutmix": 1.0}])
def test_parts_make_up_the_whole(settings: dict[str, Any]) -> None:
    data = ImageClasses(**settings).load()
    whole = batch(data, step=5, size=32)
    halves = [batch(data, step=5, size=32, part=Share(index, 2)) for index in range(2)]
    joined = torch.cat([half[0] for half in halves])
    assert torch.equal(*(torch.sort(images.flatten(1).sum(1)).values for images in (whole[0], joined)))
    assert torch.allclose(whole[1].float().mean(0), torch.cat([half[1] for half in halves]).float().mean(0))


def test_every_epoch_shows_every_sample_once_and_seeds_differ() -> None:
    order = Order(seed=1, batch=7, size=50)
    seen = np.concatenate([order.indices(step) for step in range(100)])
    for epoch in range(14):
        assert sorted(seen[50 * epoch : 50 * (epoch + 1)]) == list(range(50))
    assert (order.indices(3) == Order(seed=1, batch=7, size=50).indices(3)).all()
    assert (order.indices(3) != Order(seed=2, batch=7, size=50).indices(3)).any()


def test_mixing_is_timms_on_pairs_of_neighbours() -> None:
    data = ImageClasses(mixup=0.8, cutmix=1.0, label_smoothing=0.1).load()
    plain = ImageClasses().load()
    images, labels = batch(plain, size=16)
    mixed, targets = batch(data, size=16)
    pairs = [0, 2, 4, 6, 8, 10, 12, 14, 15, 13, 11, 9, 7, 5, 3, 1]
    with seeded(3, 0):
        wanted, soft = Mixup(0.8, 1.0, label_smoothing=0.1, num_classes=10)(images[pairs], labels[pairs])
    assert torch.equal(mixed, wanted)
    assert torch.equal(targets, soft)
    assert targets.sum(1).tolist() == pytest.approx([1.0] * 16)


def test_shifts_move_and_flips_mirror() -> None:
    shifted = ImageClasses(shift=1).load()
    plain, moved = batch(ImageClasses().load(), size=64)[0], batch(shifted, size=64)[0]
    assert (plain != moved).flatten(1).any(1).float().mean() > 0.7
    reach = range(-1, 2)
    background = ((0 - shifted.mean) / shifted.spread).item()
    for before, after in zip(plain[:, 0], moved[:, 0], strict=True):
        padded = nn.functional.pad(before, (1,) * 4, value=background)
        assert any(torch.equal(padded[1 + y : 9 + y, 1 + x : 9 + x], after) for y in reach for x in reach)
    flipped = batch(ImageClasses(flip=True).load(), size=64)[0]
    mirrored = [torch.equal(a, b.flip(-1)) and not torch.equal(a, b) for a, b in zip(plain, flipped, strict=True)]
    assert 16 < sum(mirrored) < 48


@pytest.mark.parametrize("workers", [0, 2])
def test_decoded_images_do_not_depend_on_workers(folder: Path, workers: int) -> None:
    task = ImageClasses(dataset=str(folder), auto_augment="rand-m9-mstd0.5", img_size=16, workers=workers)
    data = task.load()
    assert isinstance(data, DecodedImages)
    torch.manual_seed(workers)
    before = torch.get_rng_state()
    images, labels = batch(data, step=2, size=8)
    assert torch.equal(torch.get_rng_state(), before)
    reference = batch(
        ImageClasses(dataset=str(folder), auto_augment="rand-m9-mstd0.5", img_size=16, workers=0).load(), 2
    )
    assert torch.equal(images, reference[0])
    assert torch.equal(labels, reference[1])
    halves = [batch(data, 2, 8, Share(index, 2))[0] for index in range(2)]
    assert torch.equal(torch.cat(halves), images)
    assert data.probe_batch(3).shape == (3, 3, 16, 16)


@pytest.mark.parametrize("parts", [1, 3])
def test_evaluation_counts_every_held_out_image_once(parts: int) -> None:
    data = ImageClasses().load()

    class Constant(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return torch.eye(10)[3].repeat(len(images), 1)

    sums = [data.evaluate(Constant(), Share(index, parts), torch.device("cpu")) for index in range(parts)]
    score = data.score({key: sum(part[key] for part in sums) for key in sums[0]})
    threes = (data.found.held_out.labels == 3).double().mean().item()
    assert score["accuracy"] == pytest.approx(100 * threes)
    assert score["loss"] == pytest.approx(np.log(np.e + 9) - threes)


# Bad data


def test_an_unreadable_image_is_named(folder: Path) -> None:
    data = ImageClasses(dataset=str(folder), auto_augment="rand-m9-mstd0.5", img_size=16, workers=2).load()
    (folder / "train" / "dog" / "3.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"dog/3\.png is not a readable image"):
        ImageClasses(dataset=str(folder)).load()
    with pytest.raises(ValueError, match=r"dog/3\.png is not a readable image") as raised:
        batch(data, size=12)
    assert len(str(raised.value).splitlines()) == 1


def test_one_grey_image_does_not_make_a_set_grey(folder: Path, tmp_path: Path) -> None:
    Image.new("L", (8, 8), 77).save(folder / "train" / "cat" / "0.png")
    data = ImageClasses(dataset=str(folder)).load()
    assert data.options["in_chans"] == 3
    assert data.images[0, :, 0, 0].tolist() == [77, 77, 77]
    for split in ("train", "val"):
        for name in ("cat", "dog"):
            (tmp_path / "deep" / split / name).mkdir(parents=True)
            Image.fromarray(np.full((4, 4), 0x1234, np.uint16)).save(tmp_path / "deep" / split / name / "0.png")
    deep = ImageClasses(dataset=str(tmp_path / "deep")).load()
    assert deep.images.shape == (2, 1, 4, 4)
    assert deep.images[0, 0, 0, 0] == 0x12, "sixteen bits are scaled to eight"


def test_a_large_set_is_shifted_and_flipped_as_a_small_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leanformer.tasks.image_classes.GIGABYTE", 1)
    plain = ImageClasses(dataset=str(folder), img_size=8, workers=0).load()
    assert isinstance(plain, DecodedImages)
    torch.manual_seed(0)
    assert torch.equal(batch(plain, 0)[0], batch(plain, 0)[0])
    names = [
        type(step).__name__
        for step in ImageClasses(dataset=str(folder), img_size=8, shift=1, flip=True).load().augment.transforms
    ]
    assert names[2:4] == ["RandomCrop", "RandomHorizontalFlip"]


def test_a_truncated_image_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _parquet(tmp_path / "cifar10" / "train.parquet", [(_png(1), 0), (_png(2)[:40], 1)])
    _parquet(tmp_path / "cifar10" / "test.parquet", [(_png(3), 0)])
    monkeypatch.setenv("LEANFORMER_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"train\.parquet, row 1 is not a readable image"):
        ImageClasses(dataset="cifar10").load()


@pytest.mark.parametrize(("label", "named"), [(10, "10"), (-1, "-1")])
def test_a_label_out_of_range_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, label: int, named: str) -> None:
    _parquet(tmp_path / "cifar10" / "train.parquet", [(_png(1), 0), (_png(2), label)])
    _parquet(tmp_path / "cifar10" / "test.parquet", [(_png(3), 0)])
    monkeypatch.setenv("LEANFORMER_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=f"parquet, row 1 has label {named}; with 10 classes labels go from 0 to 9"):
        ImageClasses(dataset="cifar10").load()


def test_wrong_folders_are_reported(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ValueError, match="nowhere is not a folder, and there is no data set of that name"):
        ImageClasses(dataset=str(tmp_path / "nowhere")).load()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no images that can be trained on; needed are CLASS/"):
        ImageClasses(dataset=str(tmp_path / "empty")).load()
    draw(folder / "val" / "bird" / "0.png", 1)
    with pytest.raises(ValueError, match=r"val/bird is a class that .*train lacks"):
        ImageClasses(dataset=str(folder)).load()
    with pytest.raises(ValueError, match=r"the data folder .*nowhere does not exist"):
        ImageClasses(dataset="cifar10", root=str(tmp_path / "nowhere")).load()


def test_images_of_several_sizes_need_one(folder: Path) -> None:
    draw(folder / "train" / "cat" / "5.png", 1, size=(12, 20))
    with pytest.raises(ValueError, match=r"images differ in size \(8 × 8, 12 × 20\); give one"):
        ImageClasses(dataset=str(folder)).load()
    assert ImageClasses(dataset=str(folder), img_size=6).load().images.shape == (12, 3, 6, 6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shift": -1}, "shift must be a whole number of at least 0, got -1"),
        ({"label_smoothing": 1.0}, "label_smoothing must be less than 1, got 1.0"),
        ({"auto_augment": "rand-m9", "flip": True}, "auto_augment includes a random crop and flip"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ImageClasses(**settings)


def test_the_share_that_is_held_out_is_used_or_refused(tmp_path: Path) -> None:
    usual, half = ImageClasses(dataset="digits").load(), ImageClasses(dataset="digits", held_out=0.5).load()
    assert len(usual.held_out) == 359
    assert usual.found.held_out.labels.tolist() == load_digits().target[4::5].tolist(), "every fifth, as ever"
    assert (len(half.images), len(half.held_out)) == (899, 898)
    counts = torch.bincount(half.found.held_out.labels)
    assert counts.min() > 70, "every class is there"
    for split, images in (("train", 4), ("val", 2)):
        for name in ("a", "b"):
            (tmp_path / split / name).mkdir(parents=True)
            for index in range(images):
                Image.new("L", (8, 8), index).save(tmp_path / split / name / f"{index}.png")
    assert len(ImageClasses(dataset=str(tmp_path)).load().held_out) == 4
    with pytest.raises(ValueError, match="it has 4 held-out images of its own: leave held_out out"):
        ImageClasses(dataset=str(tmp_path), held_out=0.3).load()
