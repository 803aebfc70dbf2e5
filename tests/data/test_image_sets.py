"""Image sets: the order of sources, and messages for sets that are not here."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from leanformer.data import image_sets
from leanformer.data.hub import NotAvailable


def draw(path: Path, value: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (value, value // 2, 0)).save(path)


def test_digits_are_those_of_scikit_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read from its file, or, where the file is not found, through its function."""
    read = image_sets.find("digits")
    images = np.concatenate([read.train.images, read.held_out.images]).astype(int)
    original = load_digits()
    held_out = np.arange(len(original.target)) % 5 == 4
    order = np.concatenate([np.flatnonzero(~held_out), np.flatnonzero(held_out)])
    assert abs(images[:, 0] * (16 / 255) - original.images[order]).max() < 0.04, "rounded to 256 values"
    assert (torch.cat([read.train.labels, read.held_out.labels]).numpy() == original.target[order]).all()
    elsewhere = type("Spec", (), {"origin": str(tmp_path / "sklearn" / "__init__.py")})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: elsewhere)
    again = image_sets.find("digits")
    assert torch.equal(read.train.images, again.train.images)
    assert torch.equal(read.held_out.labels, again.held_out.labels)


def test_the_debian_package_comes_after_local_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEANFORMER_DATA", raising=False)
    monkeypatch.setattr(image_sets, "DEBIAN", tmp_path)
    seen: list[str] = []
    monkeypatch.setattr(image_sets, "_from_idx", lambda folder, source: seen.append(source))
    (tmp_path / "fashion-mnist").mkdir()
    image_sets.find("fashion-mnist")
    assert seen == ["Debian's package dataset-fashion-mnist"]
    root = tmp_path / "root" / "fashion_mnist" / "train" / "shoe"
    draw(root / "1.png", 1), draw(root.parent / "boot" / "2.png", 2)
    with pytest.raises(ValueError, match="fashion_mnist: no class has 2 images, so that none can be held out"):
        image_sets.find("fashion-mnist", str(tmp_path / "root"))


def test_a_set_that_is_not_here_says_what_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_sets, "DEBIAN", tmp_path)
    monkeypatch.setattr("leanformer.data.hub._unreachable", lambda: "")
    monkeypatch.setattr("datasets.load_dataset", lambda name: (_ for _ in ()).throw(ConnectionError("no network")))
    with pytest.raises(NotAvailable) as raised:
        image_sets.find("fashion-mnist", str(tmp_path))
    assert str(raised.value) == (
        "fashion-mnist is not on this machine, and zalando-datasets/fashion_mnist could not be downloaded from the "
        f"hub: no network. Needed is the folder fashion-mnist in {tmp_path}, Debian's package dataset-fashion-mnist, "
        "or a network"
    )


def test_progress_bars_are_as_before(tmp_path: Path) -> None:
    import datasets
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"img": [{"bytes": b"x", "path": None}] * 2, "label": [0, 1]})
    pq.write_table(table, tmp_path / "train.parquet")
    pq.write_table(table, tmp_path / "test.parquet")
    assert not datasets.are_progress_bars_disabled()
    image_sets.find(str(tmp_path))
    assert not datasets.are_progress_bars_disabled()
    (tmp_path / "train.parquet").write_bytes(b"PAR1 damaged")
    with pytest.raises(ValueError, match=r"train\.parquet is not a readable parquet file"):
        image_sets.find(str(tmp_path))
    assert not datasets.are_progress_bars_disabled()
