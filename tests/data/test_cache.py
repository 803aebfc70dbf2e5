"""The cache: entries are verified when they are opened, made again if they are damaged, and keyed by content."""

import itertools
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from leanformer.data import cache as caches
from leanformer.data import corpora, glue, tokenizers
from leanformer.data.cache import cached_arrays, cached_folder
from leanformer.data.corpora import Corpus
from leanformer.tasks import NextToken
from support.glue import write_corpus


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LEANFORMER_DATA", raising=False)
    return tmp_path / "cache"


def damage(file: Path, how: str) -> None:
    content = file.read_bytes()
    half = len(content) // 2
    changed = {
        "cut": content[:-2],
        "empty": b"",
        "longer": content + b"\0\0",
        "flipped": content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :],
    }
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(changed[how])


@pytest.mark.parametrize("how", ["cut", "empty", "longer", "flipped", "gone"])
@pytest.mark.parametrize("name", ["tokens.bin", "about.json", "sums.json", "t.json"])
def test_damaged_tokens_are_made_again(how: str, name: str, cache: Path, tmp_path: Path) -> None:
    task = NextToken(dataset=str(write_corpus(tmp_path / "a.txt")), tokenizer="bpe:300", length=16, most_tokens=5000)
    before = np.array(task.load().train.tokens)
    files = sorted(cache.glob(f"*/{name}"))
    assert files
    for file in files:
        damage(file, how)
    assert np.array_equal(task.load().train.tokens, before)
    for folder in cache.iterdir():
        assert caches._verified(folder, lambda found: False), "what was made again has its checksums"


def test_damaged_arrays_are_made_again(cache: Path) -> None:
    made: list[int] = []

    def make() -> dict[str, np.ndarray]:
        made.append(1)
        return {"values": np.arange(100)}

    cached_arrays("numbers", {"count": 100}, make)
    (file,) = cache.iterdir()
    for count, how in enumerate(("cut", "empty", "flipped", "gone"), start=2):
        damage(file, how)
        assert cached_arrays("numbers", {"count": 100}, make)["values"].tolist() == list(range(100))
        assert len(made) == count


def test_folders_of_the_first_version_are_kept_if_they_are_whole(cache: Path, tmp_path: Path) -> None:
    task = NextToken(dataset=str(write_corpus(tmp_path / "a.txt")), length=16, most_tokens=5000)
    before = np.array(task.load().train.tokens)
    for sums in cache.glob("*/sums.json"):
        sums.unlink()
    times = {file: file.stat().st_mtime_ns for file in cache.glob("*/tokens.bin")}
    assert np.array_equal(task.load().train.tokens, before)
    assert {file: file.stat().st_mtime_ns for file in cache.glob("*/tokens.bin")} == times
    for file in (*cache.glob("*/sums.json"), *cache.glob("*/tokens.bin")):
        damage(file, "gone" if file.name == "sums.json" else "cut")
    assert np.array_equal(task.load().train.tokens, before)


KILLED = """
import os, signal
from leanformer.data.cache import cached_folder

def make(folder):
    (folder / "half").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)

cached_folder("thing", 1, make)
"""


def test_a_kill_leaves_nothing_that_is_read_and_its_rest_is_removed(cache: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED], check=False)
    assert [path.name.startswith(".thing-") for path in cache.iterdir()] == [True]
    busy = cache / f"{next(cache.iterdir()).name.rpartition('.')[0]}.{os.getppid()}"
    assert socket.gethostname() in busy.name
    busy.mkdir()
    folder = cached_folder("thing", 1, lambda aside: (aside / "whole").write_text("whole") and None)
    assert sorted(path.name for path in folder.iterdir()) == ["sums.json", "whole"]
    assert sorted(cache.iterdir()) == sorted([folder, busy]), "another process's work stays"


def test_two_fresh_caches_have_equal_tokenizers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = Corpus(lambda: itertools.islice(corpora.pydoc(), 20), lambda: iter(()), "pydoc", "pydoc")
    for name in ("wordpiece:800", "bpe:800"):
        found = set()
        for number in range(3):
            monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path / f"{name}-{number}"))
            found.add(tokenizers.tokenizer(name, texts).to_str())
        assert len(found) == 1, name
    made = tokenizers.tokenizer("wordpiece:800", texts)
    assert made.get_vocab_size() == 800
    assert [made.token_to_id(word) for word in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")] == [0, 1, 2, 3, 4]
    assert made.encode("the [MASK] ##a").tokens[1] == "[MASK]"
    assert "##a" not in made.encode("##a").tokens, "a letter within a word is not a special token"


def test_sentences_are_known_by_their_content() -> None:
    rows = {"sentence": ["a", "bc"], "label": [0, 1]}
    same = glue.corpus_of(dict(rows), "elsewhere").identity
    assert glue.corpus_of(rows, "here").identity == same
    for other in (["a", "bd"], ["ab", "c"], ["bc", "a"], ["a", "bc", ""]):
        assert glue.corpus_of({**rows, "sentence": other}, "here").identity != same
