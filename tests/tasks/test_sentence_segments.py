"""Which sentence a token is of: told to models that can tell sentences apart, and to no others."""

from pathlib import Path

import torch

from leanformer.models import families
from leanformer.tasks import SentenceClasses
from support.architectures import SMALL
from support.glue import write_glue


def test_pairs_have_segments(tmp_path: Path) -> None:
    write_glue(tmp_path, "rte", rows=20)
    data = SentenceClasses(name="rte", root=str(tmp_path), tokenizer="wordpiece:300").load()
    bert = families.build(SMALL["bert"].with_options(**data.options))
    first, last, padding = (data.tokenizer.token_to_id(word) for word in ("[CLS]", "[SEP]", "[PAD]"))
    ids = torch.tensor([[first, 7, last, 8, 9, last], [first, 7, 8, last, padding, padding]])
    mask = (ids != padding).long()
    assert data._inputs(bert, ids, mask)["token_type_ids"].tolist() == [[0, 0, 0, 1, 1, 1], [0] * 6]
    crammed = families.build(SMALL["crammed-bert"].with_options(**data.options))
    assert "token_type_ids" not in data._inputs(crammed, ids, mask)
