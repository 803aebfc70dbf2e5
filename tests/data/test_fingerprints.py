"""Digests of data: other content gives another digest, another place does not."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from leanformer.data import fingerprints
from leanformer.data.fingerprints import fingerprint, fingerprint_of_images
from leanformer.data.image_files import Chosen, Files
from leanformer.data.labelled_images import LabelledImages


def test_content_type_and_shape_count() -> None:
    array = np.arange(12, dtype=np.int64)
    digest = fingerprint(array, "text")
    assert digest == fingerprint(torch.arange(12), "text") == fingerprint(array[::-1][::-1], "text")
    changed = array.copy()
    changed[7] += 1
    others = [(changed, "text"), (array.reshape(3, 4), "text"), (array.astype(np.int32), "text"), (array, "test")]
    others += [(array, "tex", "t"), (array, 4), (array,)]
    assert digest not in [fingerprint(*other) for other in others]
    with pytest.raises(TypeError, match="got list"):
        fingerprint([1, 2])


def test_of_a_large_array_a_part_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "BLOCK", 8)
    monkeypatch.setattr(fingerprints, "MOST_BLOCKS", 3)
    array = np.zeros(800, np.uint8)
    seen = [place for place in range(800) if fingerprint(_with(array, place)) != fingerprint(array)]
    assert seen == [*range(8), *range(49 * 8, 50 * 8), *range(99 * 8, 800)]
    assert fingerprint(array[:-1]) != fingerprint(array)


def _with(array: np.ndarray, place: int) -> np.ndarray:
    changed = array.copy()
    changed[place] = 1
    return changed


def test_images_in_files_are_known_by_names_sizes_and_labels(tmp_path: Path) -> None:
    def made(folder: Path, side: int = 4) -> LabelledImages:
        (folder / "cat").mkdir(parents=True, exist_ok=True)
        files = [folder / "cat" / f"{number}.png" for number in range(3)]
        for file in files:
            Image.new("L", (side, 4)).save(file)
        return LabelledImages(Files(files), torch.tensor([0, 1, 0]))

    split = made(tmp_path / "one")
    digest = fingerprint_of_images(split)
    assert fingerprint_of_images(made(tmp_path / "elsewhere")) == digest
    assert fingerprint_of_images(LabelledImages(split.images, torch.tensor([0, 1, 1]))) != digest
    assert fingerprint_of_images(made(tmp_path / "larger", side=400)) != digest
    some = Chosen(split.images, np.array([0, 2]))
    others = Chosen(split.images, np.array([0, 1]))
    labels = torch.tensor([0, 0])
    assert fingerprint_of_images(LabelledImages(some, labels)) != fingerprint_of_images(LabelledImages(others, labels))
