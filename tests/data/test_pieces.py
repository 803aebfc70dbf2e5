"""Encoding in pieces: the same tokens as in one call, and bounded memory."""

import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, normalizers

from leanformer.data import corpora, pieces, tokenizers
from leanformer.data.corpora import Corpus


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEANFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("LEANFORMER_DATA", raising=False)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEANFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
        texts = corpora.find("pydoc")
        return {name: tokenizers.tokenizer(name, texts) for name in ("bytes", "bpe:500", "wordpiece:500")}


@pytest.mark.parametrize("name", ["bytes", "bpe:500", "wordpiece:500"])
@pytest.mark.parametrize("longest", [300, 1000])
def test_pieces_have_the_tokens_of_the_whole(
    name: str, longest: int, trained: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "LONGEST", longest)
    made = trained[name]
    odd = (
        "  two  blanks \n\n\t tabs\r\nlines \u00a0 e\u0301 \u4e2d\u6587 \u3000 it's we'll  <|endoftext|> [SEP] \n" * 40
    )
    documents = [*list(corpora.pydoc())[:12], odd, "", "short"]
    found = [ids.tolist() for ids in pieces.encoded(made, documents, "here")]
    assert found == [encoding.ids for encoding in made.encode_batch(documents, add_special_tokens=False)]


def test_a_word_without_end_is_refused_unless_bytes_are_tokens(
    trained: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "LONGEST", 100)
    word = "é" + "x" * 1000
    (found,) = pieces.encoded(trained["bytes"], [word], "here")
    assert found.tolist() == trained["bytes"].encode(word).ids
    for name in ("bpe:500", "wordpiece:500"):
        with pytest.raises(ValueError, match=r'here: the word "éx+…" has more than 100 characters, too many'):
            list(pieces.encoded(trained[name], [word], "here"))


def test_a_tokenizer_that_cannot_be_cut_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "LONGEST", 100)
    made = Tokenizer(models.BPE({letter: index for index, letter in enumerate("_ab")}, []))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("_"), normalizers.Replace(" ", "_")])
    with pytest.raises(
        ValueError, match="here: a document has 600 characters, and the tokenizer cannot encode it in pi"
    ):
        list(pieces.encoded(made, ["aa bb " * 100], "here"))


def test_training_on_long_documents_is_training_on_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    document = "\n".join(list(corpora.pydoc())[:8])
    texts = Corpus(lambda: iter([document]), lambda: iter(()), "here", "long")
    whole = [tokenizers._trained(kind, 400, texts).to_str() for kind in ("bpe", "wordpiece")]
    monkeypatch.setattr(pieces, "LONGEST", 500)
    assert [tokenizers._trained(kind, 400, texts).to_str() for kind in ("bpe", "wordpiece")] == whole


MEASURED = """
import sys
from pathlib import Path
from leanformer.tasks import NextToken
data = NextToken(dataset=sys.argv[1], tokenizer="bytes").load()
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(data.train.size_bytes, peak.split()[1])  # getrusage would also count the process that started this one
"""


def test_one_long_line_is_read_in_bounded_memory(tmp_path: Path) -> None:
    (tmp_path / "valid.txt").write_text("a held-out text " * 100)
    size = 3_500_000
    (tmp_path / "train.txt").write_text(("word " * (size // 5))[:-1])
    command = [sys.executable, "-c", MEASURED, str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-2000:]
    written, peak = map(int, found.stdout.split())
    assert written == size - 1
    assert peak < 900_000, "in kilobytes, of which 690,000 are usual; in one call it takes 170 bytes per character more"
