"""Generate text with a trained language model, so that a person can read what it learned.

Keys and values of past tokens are cached. When the model's positions run out, generation continues from the second half
of the tokens in its window.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from leanformer.models.weights import from_pretrained, saved_in


def generate(
    folder: str | Path,
    prompt: str,
    tokens: int = 200,
    temperature: float = 0.8,
    top_k: int | None = 50,
    seed: int = 0,
) -> Iterator[str]:
    """Pieces of text as they are generated, after the prompt; stops at the end-of-text token.

    Args:
        folder: a training run, or a saved causal model with tokenizer.json beside it.
        prompt: how the text begins.
        tokens: the most tokens to generate.
        temperature: 0 takes the likeliest token each time; 1 samples from the model's own distribution.
        top_k: samples from this many likeliest tokens only; None for all.
        seed: seed of the sampling.
    """
    from tokenizers import Tokenizer

    if tokens < 1:
        raise ValueError(f"tokens must be at least 1, got {tokens}")
    if not 0 <= temperature < float("inf"):
        raise ValueError(f"temperature must be a finite number of at least 0, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, got {top_k}")
    place = saved_in(Path(folder))
    if not (place / "tokenizer.json").is_file():
        raise ValueError(f"{place} holds no tokenizer.json: only models trained on text can generate")
    model = from_pretrained(place)
    try:
        tokenizer = Tokenizer.from_file(str(place / "tokenizer.json"))
    except Exception as error:  # the library raises nothing more specific
        reason = " ".join(str(error).split())
        raise ValueError(f"{place / 'tokenizer.json'} is not a tokenizer: {reason}") from error
    if not hasattr(model, "generate"):
        raise ValueError(f"{place} is a {type(model).__name__}, which does not predict the next token")
    ids = tokenizer.encode(prompt, add_special_tokens=False).ids
    known, words = tokenizer.get_vocab_size(with_added_tokens=False), cast(Any, model).config.vocab_size
    if (needed := max(known, *(token + 1 for token in ids), 0)) > words:
        raise ValueError(
            f"{place / 'tokenizer.json'} has {needed:,} tokens, the model beside it {words:,}: put the model's own "
            "tokenizer there"
        )
    end = tokenizer.token_to_id("<|endoftext|>")
    written: list[int] = []
    shown = ""
    start = ids or ([end] if end is not None else [0])
    for token in sampled(model, start, tokens, temperature, top_k, seed):
        if token == end:
            break
        written.append(token)
        text = tokenizer.decode(written)
        if not text.endswith("\N{REPLACEMENT CHARACTER}"):  # half a character waits for its other half
            yield text[len(shown) :]
            shown = text


@torch.no_grad()
def sampled(
    model: nn.Module, ids: list[int], tokens: int, temperature: float, top_k: int | None, seed: int
) -> Iterator[int]:
    """Generated tokens, one after another."""
    longest = int(cast(Any, model).config.max_position_embeddings)
    device = next(model.parameters()).device
    draw = torch.Generator().manual_seed(seed)
    seen, cache = list(ids)[-longest:], None
    fresh = seen
    for _ in range(tokens):
        output = model(input_ids=torch.tensor([fresh], device=device), past_key_values=cache, use_cache=True)
        token = _chosen(output.logits[0, -1].float(), temperature, top_k, draw)
        yield token
        seen, fresh, cache = [*seen, token], [token], output.past_key_values
        if len(seen) > longest:  # out of positions: start again from the latest half
            seen = seen[-(longest // 2) :]
            fresh, cache = seen, None


def _chosen(logits: torch.Tensor, temperature: float, top_k: int | None, draw: torch.Generator) -> int:
    if temperature == 0:
        return int(logits.argmax())
    logits = logits.cpu()  # where the draw is made
    if top_k is not None and top_k < len(logits):
        logits = logits.masked_fill(logits < logits.topk(top_k).values[-1], float("-inf"))
    return int(torch.multinomial((logits / temperature).softmax(-1), 1, generator=draw))
