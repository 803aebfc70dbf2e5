"""The Nyströmformer's padding: sequences without tokens, and lengths beyond what is there."""

import pytest
import torch

from leanformer.models.names import create


@pytest.mark.parametrize("pool_by", ["length", "padded"])
@pytest.mark.parametrize("landmarks", [4, 32], ids=["landmarks", "exact"])
def test_a_sequence_without_tokens_has_a_defined_output_and_changes_no_other(pool_by: str, landmarks: int) -> None:
    torch.manual_seed(0)
    model = create("nystromformer-listops", depth=2, landmarks=landmarks, pool_by=pool_by).eval()
    ids = torch.randint(0, 16, (3, 20))
    with torch.no_grad():
        together = model(input_ids=ids, lengths=torch.tensor([0, 20, 7])).logits
        empty = model(input_ids=ids.flip(-1)[:1], lengths=torch.tensor([0])).logits
        others = model(input_ids=ids[1:], lengths=torch.tensor([20, 7])).logits
    assert together.isfinite().all()
    torch.testing.assert_close(together[:1], empty)  # whatever the padding holds
    torch.testing.assert_close(together[1:], others)


def test_a_length_beyond_the_tokens_counts_as_all_of_them() -> None:
    model = create("nystromformer-listops", depth=1, landmarks=4).eval()
    ids = torch.randint(0, 16, (1, 12))
    with torch.no_grad():
        beyond, whole = (model(input_ids=ids, lengths=torch.tensor([length])).logits for length in (99, 12))
    torch.testing.assert_close(beyond, whole)


def test_a_dropout_after_gelu_changes_no_name_and_no_weight() -> None:
    plain, dropped = (create("nystromformer-listops", depth=1, mlp_dropout=rate) for rate in (0.0, 0.5))
    dropped.load_state_dict(plain.state_dict())
    ids = torch.randint(0, 16, (2, 12))
    with torch.no_grad():
        torch.testing.assert_close(dropped.eval()(input_ids=ids).logits, plain.eval()(input_ids=ids).logits)
        dropped.blocks[0].mlp.train()
        assert not torch.equal(dropped(input_ids=ids).logits, plain(input_ids=ids).logits)
