"""The data folder: one look-up, and messages that say which folder is wrong."""

from pathlib import Path

import pytest

from leanformer.data import corpora, glue, image_sets, labelled_texts, tokenizers
from leanformer.data.locations import data_root, find_folder, in_root, needed, shown


def test_an_argument_comes_before_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "imdb").mkdir(parents=True)
    (tmp_path / "b" / "imdb").mkdir(parents=True)
    monkeypatch.delenv("LEANFORMER_DATA", raising=False)
    assert data_root() is None
    assert in_root(("imdb",)) is None
    assert needed("imdb") == "the folder imdb in a data folder (root or LEANFORMER_DATA)"
    monkeypatch.setenv("LEANFORMER_DATA", str(tmp_path / "a"))
    assert find_folder("imdb") == tmp_path / "a" / "imdb"
    assert find_folder("imdb", str(tmp_path / "b")) == tmp_path / "b" / "imdb"
    assert find_folder(str(tmp_path / "b")) == tmp_path / "b"
    assert needed("aan") == f"the folder aan in {tmp_path / 'a'}"
    assert shown(tmp_path / "a" / "imdb") == "$LEANFORMER_DATA/imdb"
    assert shown(tmp_path / "b") == str(tmp_path / "b")


@pytest.mark.parametrize(
    "look_up",
    [
        lambda root: image_sets.find("cifar10", root),
        lambda root: corpora.find("tinystories", root),
        lambda root: labelled_texts.find("imdb", root),
        lambda root: labelled_texts.find_pairs("aan", root),
        lambda root: glue.find("sst2", root),
        lambda root: tokenizers.tokenizer("gpt2", corpora.find("pydoc"), root),
    ],
)
def test_a_folder_that_does_not_exist_is_an_error_everywhere(
    look_up: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(look_up)
    wrong = str(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=f"the data folder {wrong} does not exist; it was given as root"):
        look_up(wrong)
    monkeypatch.setenv("LEANFORMER_DATA", wrong)
    with pytest.raises(ValueError, match=f"the data folder {wrong} does not exist; it was given as LEANFORMER_DATA"):
        look_up(None)
