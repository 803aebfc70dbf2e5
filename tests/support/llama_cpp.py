"""A tiny Llama in llama.cpp's form, as SmolLM2 is in its package."""

from pathlib import Path

import gguf
import torch
import transformers
from torch import Tensor

WORDS = ["<unk>", *(chr(code) for code in range(33, 127)), "Ġ", "Ċ", "th", "<|endoftext|>"]


def written_by_llama_cpp(model: transformers.LlamaForCausalLM, path: Path) -> None:
    """As its converter does: every tensor under its own name, and the rows of queries and keys in rotary pairs."""
    config, state = model.config, model.state_dict()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(WORDS)
    writer.add_token_types([gguf.TokenType.NORMAL] * len(WORDS))
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)

    def paired(weight: Tensor, heads: int) -> Tensor:
        return weight.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)

    tensors = {
        "token_embd": state["model.embed_tokens.weight"],
        "output_norm": state["model.norm.weight"],
        "output": state["lm_head.weight"],
    }
    names = {"self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "input_layernorm": "attn_norm"}
    names |= {"post_attention_layernorm": "ffn_norm"} | {
        f"mlp.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")
    }
    for index in range(config.num_hidden_layers):
        layer = f"model.layers.{index}"
        tensors |= {f"blk.{index}.{name}": state[f"{layer}.{ours}.weight"] for ours, name in names.items()}
        for letter, heads in (("q", config.num_attention_heads), ("k", config.num_key_value_heads)):
            tensors[f"blk.{index}.attn_{letter}"] = paired(state[f"{layer}.self_attn.{letter}_proj.weight"], heads)
    for name, tensor in tensors.items():
        writer.add_tensor(f"{name}.weight", tensor.float().contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tiny_llama() -> transformers.LlamaForCausalLM:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        intermediate_size=48, vocab_size=len(WORDS), max_position_embeddings=64, tie_word_embeddings=False,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()
