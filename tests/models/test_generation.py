"""Generation: the cache changes nothing, positions may run out, and mistakes are reported."""

import shutil
from pathlib import Path

import pytest
import torch

from leanformer.models import families
from leanformer.models import names as zoo
from leanformer.models.generation import generate, sampled
from leanformer.models.weights import save_pretrained
from leanformer.tasks.next_token import NextToken


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    design = zoo.architecture_of(
        "tinystories-gpt2",
        width=16,
        depth=2,
        heads=2,
        head_dim=8,
        mlp_dim=32,
        max_position_embeddings=8,
        vocab_size=257,
    )
    save_pretrained(families.build(design), place)
    NextToken().load().accompany(place)
    return place


def test_the_cache_changes_nothing(folder: Path) -> None:
    from leanformer.models.weights import from_pretrained

    model = from_pretrained(folder)
    ids = [5, 6, 7]
    found = list(sampled(model, ids, 5, temperature=0, top_k=None, seed=0))
    for token in found:  # each token anew, from everything before it
        with torch.no_grad():
            assert int(model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()) == token
        ids = [*ids, token]


def test_generation_continues_when_positions_run_out_and_repeats_with_its_seed(folder: Path) -> None:
    first = list(generate(folder, "a long beginning, longer than the model sees", tokens=40, seed=1))
    assert first == list(generate(folder, "a long beginning, longer than the model sees", tokens=40, seed=1))
    assert "".join(first) != "".join(
        generate(folder, "a long beginning, longer than the model sees", tokens=40, seed=2)
    )
    assert len("".join(generate(folder, "", tokens=40, seed=1))) > 0


def test_only_the_likeliest_are_drawn_from(folder: Path) -> None:
    from leanformer.models.weights import from_pretrained

    model = from_pretrained(folder)
    greedy = list(sampled(model, [1], 6, temperature=0, top_k=None, seed=0))
    assert list(sampled(model, [1], 6, temperature=1, top_k=1, seed=3)) == greedy


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tokens": 0}, "tokens must be at least 1, got 0"),
        ({"temperature": -1}, "temperature must be a finite number of at least 0, got -1"),
        ({"temperature": float("nan")}, "temperature must be a finite number of at least 0, got nan"),
        ({"top_k": 0}, "top_k must be at least 1, got 0"),
    ],
)
def test_mistakes_are_reported(folder: Path, tmp_path: Path, settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        next(generate(folder, "a", **settings))
    with pytest.raises(ValueError, match=r"holds no tokenizer\.json: only models trained on text can generate"):
        next(generate(tmp_path, "a"))


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"[1]", b"\xff\xfe", b'{"version": "1.0", "model": null}'])
def test_a_damaged_tokenizer_is_named(content: bytes, folder: Path, tmp_path: Path) -> None:
    spoilt = Path(shutil.copytree(folder, tmp_path / "spoilt"))
    (spoilt / "tokenizer.json").write_bytes(content)
    with pytest.raises(ValueError, match=rf"^{spoilt}/tokenizer.json is not a tokenizer: [^\n]+$"):
        next(generate(spoilt, "a"))


@pytest.mark.parametrize("content", [b"", b"no safetensors", b"\xff" * 200, "cut"])
def test_damaged_weights_are_named(content: bytes | str, folder: Path, tmp_path: Path) -> None:
    spoilt = Path(shutil.copytree(folder, tmp_path / "spoilt"))
    file = spoilt / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-10] if isinstance(content, str) else content)
    with pytest.raises(ValueError, match=rf"{spoilt}[^\n]*$") as caught:
        next(generate(spoilt, "a"))
    assert "\n" not in str(caught.value)


def test_a_tokenizer_with_more_words_than_the_model_is_refused(folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    NextToken(tokenizer="bpe:300").load().accompany(other)
    reason = rf"^{other}/tokenizer.json has 300 tokens, the model beside it 257: put the model's own tokenizer there$"
    with pytest.raises(ValueError, match=reason):
        next(generate(other, "a"))
