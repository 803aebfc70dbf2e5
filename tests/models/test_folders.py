"""Models of others on disk: files of llama.cpp, and configs that name no model type."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers

import leanformer as lf
from leanformer.conditioning.inputs import choose_inputs
from support.command import call
from support.llama_cpp import WORDS, tiny_llama, written_by_llama_cpp


def llama_cpp(folder: Path) -> None:
    """As SmolLM2 is in its package."""
    written_by_llama_cpp(tiny_llama(), folder / "tiny.gguf")


def sentence_bert(folder: Path) -> None:
    """As MiniLM: a BERT without a head, and a tokenizer.json."""
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=300
    )
    transformers.BertModel(config).save_pretrained(folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(chr(code) for code in range(33, 127))]
    words += [f"##{word}" for word in words[5:]]
    (folder / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)


def bert_of_reactions(folder: Path) -> None:
    """As rxnfp: pickled weights, a config without a type, and words that are not English."""
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=12
    )
    torch.save(transformers.BertForMaskedLM(config).state_dict(), folder / "pytorch_model.bin")
    written = {key: value for key, value in config.to_dict().items() if key not in ("model_type", "architectures")}
    (folder / "config.json").write_text(json.dumps(written))
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"cCNO()="]))


def gpt2_of_proteins(folder: Path) -> None:
    """As IgLM: pickled weights of a GPT-2, and no tokenizer."""
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=33, n_positions=64)
    model = transformers.GPT2LMHeadModel(config)
    model.save_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("write", "inputs"),
    [
        (sentence_bert, "8 passages of 32 tokens from Python's documentation"),
        (llama_cpp, "8 passages of 32 tokens from Python's documentation"),
        (bert_of_reactions, "8 sequences of 32 random tokens, seed 0 (its tokenizer does not know "),
        (gpt2_of_proteins, "8 sequences of 32 random tokens, seed 0"),
    ],
)
def test_models_in_the_forms_of_the_registry_packages_are_measured_by_one_command(
    write: Callable[[Path], None], inputs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    write(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    shown = call("measure", "model", "--tokens", "32", "--out", "out")
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr == "written: out/kappa_by_layer.json, kappa_by_layer.png, kappa_by_layer.svg\n"
    record = lf.Measurement.read(tmp_path / "out" / "kappa_by_layer.json")
    assert record.command == "leanformer measure model --tokens 32 --out out"
    assert record.inputs.startswith(inputs)
    assert [layer.heads for layer in record.layers] == [4, 4]
    assert all(layer.kappa.median > 1 for layer in record.layers)


def test_a_file_of_llama_cpp_is_designed_and_computes_the_same(tmp_path: Path) -> None:
    theirs = tiny_llama()
    file = tmp_path / "tiny.gguf"
    written_by_llama_cpp(theirs, file)
    ids = torch.randint(len(WORDS), (2, 9))
    for place in (file, tmp_path):
        ours = lf.from_pretrained(place)
        with torch.no_grad():
            torch.testing.assert_close(ours(ids).logits, theirs(ids).logits, rtol=1e-5, atol=1e-5)
        described = lf.architecture_of(str(place))
        assert (described.family, described.options["kv_groups"]) == ("decoder", 2)
        assert [(stage.depth, stage.heads, stage.head_dim) for stage in described.stages] == [(2, 4, 8)]
        assert "passages of 32 tokens from Python's documentation" in choose_inputs(ours, str(place), tokens=32).source
    with pytest.raises(ValueError, match=r"is a saved model, and lf\.create gives fresh weights"):
        lf.create(str(file))


def test_files_that_are_not_llama_cpps_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "damaged.gguf"
    file.write_bytes(b"GGUF and no more")
    with pytest.raises(ValueError, match=r"damaged\.gguf is not a model in llama\.cpp's form that transformers reads"):
        lf.from_pretrained(file)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r'damaged\.gguf is in llama\.cpp\'s form: pip install "leanformer\[gguf\]"'):
        lf.architecture_of(str(file))


def test_a_bert_whose_config_names_no_type_and_whose_words_are_no_text(tmp_path: Path) -> None:
    """As the first published ones are; and one of molecules does not know English."""
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=12
    )
    theirs = transformers.BertForMaskedLM(config).eval()
    torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")
    written = {key: value for key, value in config.to_dict().items() if key not in ("model_type", "architectures")}
    (tmp_path / "config.json").write_text(json.dumps(written))
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"cCNO()="]))
    ours = lf.from_pretrained(tmp_path)
    ids = torch.randint(12, (2, 9))
    with torch.no_grad():
        assert torch.equal(ours(ids).last_hidden_state, theirs.bert(ids).last_hidden_state)
    assert lf.architecture_of(str(tmp_path)).family == "bert"
    chosen = choose_inputs(ours, str(tmp_path), tokens=16, batch=2)
    assert chosen.source.startswith("2 sequences of 16 random tokens, seed 0 (its tokenizer does not know ")
    (tmp_path / "book.txt").write_text("the cat sat on the mat " * 50)
    with pytest.raises(ValueError, match=r"does not know \d+ % of .*book\.txt: give a text in its language"):
        choose_inputs(ours, str(tmp_path), text=tmp_path / "book.txt", tokens=16)
