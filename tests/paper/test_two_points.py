"""The counterpoint's theory in numbers: the bound, random heads with the best weights, and two layers that vote."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import eval_gegenbauer

from leanformer.paper.two_points.bound import LowerBound, bound, log_harmonics, lower_bound, shares
from leanformer.paper.two_points.features import RandomFeatures, best_weights, error_of, features, fitted, random_heads
from leanformer.paper.two_points.samples import FIT, choices, draw
from leanformer.paper.two_points.voting import Voting, attended, expected_error, voting
from support.command import call

RESULTS = Path(__file__).parents[2] / "results" / "paper"


# The bound


@pytest.mark.parametrize("dim", [3, 8, 17])
def test_shares_of_the_sign_by_degree(dim: int) -> None:
    """The closed form against an integral, and they add up to 1."""
    power = dim / 2 - 1
    area = quad(lambda t: (1 - t * t) ** (power - 0.5), -1, 1)[0]
    for degree in (1, 3, 7):
        half = quad(lambda t, n=degree: eval_gegenbauer(n, power, t) * (1 - t * t) ** (power - 0.5), 0, 1)[0]
        mean = 2 * half / area / eval_gegenbauer(degree, power, 1.0)
        count = math.comb(degree + dim - 1, degree) - (math.comb(degree + dim - 3, degree - 2) if degree > 1 else 0)
        assert math.exp(log_harmonics(dim, np.array(float(degree)))) == pytest.approx(count)
        assert shares(dim, np.array([float(degree)]))[0] == pytest.approx(count * mean**2, rel=1e-6)
    assert shares(dim, np.arange(1.0, 100_000, 2)).sum() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(("dim", "rank", "degree"), [(5, 2, 3), (6, 3, 5), (7, 1, 7), (6, 5, 3)])
def test_functions_of_few_coordinates_reach_as_many_harmonics_as_counted(dim: int, rank: int, degree: int) -> None:
    """Harmonics of a degree that see only so many coordinates: the kernel of the Laplacian on polynomials of these
    coordinates and of the squared length of the rest.
    """

    def terms(total: int) -> list[tuple[int, ...]]:
        powers = itertools.product(range(total + 1), repeat=rank)
        return [(*own, (total - sum(own)) // 2) for own in powers if sum(own) <= total and (total - sum(own)) % 2 == 0]

    before, after = terms(degree), {term: place for place, term in enumerate(terms(degree - 2))}
    laplacian = np.zeros((len(after), len(before)))
    for column, term in enumerate(before):
        for place, power in enumerate(term):
            last = place == rank
            factor = 2 * power * (2 * (power - 1) + dim - rank) if last else power * (power - 1)
            if factor:
                lowered = tuple(p - (1 if last else 2) * (i == place) for i, p in enumerate(term))
                laplacian[after[lowered], column] += factor
    found = len(before) - np.linalg.matrix_rank(laplacian)
    assert found == math.comb(rank + degree - 1, degree)


def test_the_bound_falls_with_heads_and_rank_and_rises_with_the_dimension() -> None:
    values = [lower_bound(16, 4, heads) for heads in (1, 2, 8, 64, 1024)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < values[0] < 0.5
    ranks = [lower_bound(16, rank, 8) for rank in (1, 4, 8, 15, 16)]
    assert ranks == sorted(ranks, reverse=True)
    assert ranks[-1] == 0
    dims = [lower_bound(dim, 4, 64) for dim in (5, 8, 16, 64)]
    assert dims == sorted(dims)
    assert lower_bound(8, 4, 16, degrees=101) == pytest.approx(lower_bound(8, 4, 16), abs=0.01)
    assert lower_bound(8, 4, 16, degrees=101) <= lower_bound(8, 4, 16), "the tail is bounded from below"
    with pytest.raises(ValueError, match="rank must be from 1 to the dimension 8, got 9"):
        lower_bound(8, 9, 1)


def test_as_many_heads_as_needed_reach_the_error_and_fewer_do_not() -> None:
    record = bound(dims="8", heads="1")
    for need in record.needed:
        assert lower_bound(need.dim, need.rank, 2**need.log2_heads) == pytest.approx(need.error, rel=1e-6)
        assert lower_bound(need.dim, need.rank, 2 ** (need.log2_heads - 0.1)) > need.error


# Random heads


def test_choices_agree_as_often_as_the_exact_formulas_say() -> None:
    """Two heads agree with chance ½ + 2/π² · asin · asin; in 2 dimensions a head is right by its angle."""
    queries, keys = random_heads(2, 1, 6, seed=1)
    samples = draw(2, 100_000, 1, FIT)
    chosen = choices(samples, queries, keys)
    q, k = queries[:, :, 0], keys[:, :, 0]
    angles = [np.arcsin(np.clip(a @ a.T, -1, 1)) for a in (q, k)]
    agree = (1 + chosen.T @ chosen / len(chosen)) / 2
    assert np.abs(agree - (0.5 + 2 / np.pi**2 * angles[0] * angles[1])).max() < 0.01
    between = np.arccos((q * k).sum(1))
    right = 0.5 + np.sign(np.pi / 2 - between) * (0.25 - (np.pi / 2 - np.abs(np.pi / 2 - between)) ** 2 / np.pi**2)
    assert np.abs((chosen == samples.nearer[:, None]).mean(0) - right).max() < 0.01


def test_the_fit_is_least_squares_of_the_outputs_themselves() -> None:
    """Against NumPy on the heads' outputs as vectors, without the algebra of signs."""
    samples = draw(4, 300, 0, FIT)
    chosen = choices(samples, *random_heads(4, 2, 7, seed=0))
    total = np.random.default_rng(0).standard_normal((300, 4))
    total -= (total * samples.difference).sum(1, keepdims=True) / 2 * samples.difference
    total *= math.sqrt(2) / np.linalg.norm(total, axis=1, keepdims=True)
    first, second = (total + samples.difference) / 2, (total - samples.difference) / 2
    assert np.abs((first * second).sum(1)).max() < 1e-12
    outputs = np.where(chosen[:, :, None] > 0, first[:, None], second[:, None])
    wanted = np.where(samples.nearer[:, None] > 0, first, second)
    direct = np.linalg.lstsq(outputs.transpose(0, 2, 1).reshape(-1, 7), wanted.ravel())[0]
    weights = best_weights(chosen, samples.nearer)
    assert weights == pytest.approx(direct, abs=1e-9)
    fit = error_of(weights, chosen, samples.nearer)
    assert fit == pytest.approx(np.square((outputs * direct[:, None]).sum(1) - wanted).sum(1).mean())
    assert fit <= error_of(np.zeros(7), chosen, samples.nearer) == 1


def test_a_head_of_full_rank_is_exact_and_random_ones_stay_above_the_bound() -> None:
    samples = draw(6, 200, 0, FIT)
    assert (choices(samples, np.eye(6)[None], np.eye(6)[None])[:, 0] == samples.nearer).all()
    record = features(dims="6", heads="2,16,64", samples=2048, seeds=1)
    for row in record.rows:
        assert row.bound < row.error < 1
    errors = [row.error for row in record.of(rank=1)]
    assert errors == sorted(errors, reverse=True)
    with pytest.raises(ValueError, match=r"samples must be at least four times the most heads, 256, got 100"):
        features(heads="64", samples=100)


# Two layers


def test_voting_errs_as_often_as_the_binomial_says() -> None:
    record = voting(dims="6", heads="1,31,301", samples=4000, seeds=2)
    for row in record.rows:
        assert row.error == pytest.approx(row.expected, abs=0.06)
        assert all(one > row.bound for one in row.one_layer), "a single layer cannot beat the bound"
    errors = [row.error for row in record.rows]
    assert errors == sorted(errors, reverse=True)
    assert expected_error(2, 1) == pytest.approx(0.5), "one head errs with the mean angle over π, a quarter: 2 · ¼"
    assert expected_error(6, 10_001) < 0.03
    assert 0 < expected_error(6, 2) == pytest.approx(expected_error(6, 1), rel=0.5)


def test_the_second_layer_is_an_attention_head_of_rank_1() -> None:
    """Scores are the vote times the positions; a sharp softmax over both points reads the winner."""
    vote, position = np.array([0.2, -0.4, 0.0]), np.array([1.0, -1.0])
    scores = 1e6 * vote[:, None] * position
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    assert (weights @ position == attended(vote)).all()


# Commands and committed records


def test_commands_print_records_and_refuse_what_they_cannot_use(tmp_path: Path) -> None:
    out = call("paper", "bound", "--dims", "4", "--heads", "1,2", "--json", "--out", str(tmp_path))
    assert json.loads(out.stdout)["kind"] == "lower-bound"
    assert LowerBound.read(tmp_path / "bound.json").rows[0].heads == 1
    assert (tmp_path / "bound.png").is_file()
    assert "bound.json, bound.png" in " ".join(out.stderr.split())
    refused = call("paper", "bound", "--dims", "3")
    assert refused.returncode
    assert "--dims must be numbers of at least 4, got [3]" in " ".join(refused.stderr.split())


def test_committed_records_come_out_again() -> None:
    """One cell of each, by the seed and the sizes that the record holds."""
    committed = RandomFeatures.read(RESULTS / "features.json")
    row = next(r for r in committed.rows if (r.dim, r.rank, r.heads) == (8, 1, 16))
    assert fitted(8, 1, [16], committed.samples, 0)[0] == pytest.approx(row.errors[0], rel=1e-6)
    votes = Voting.read(RESULTS / "voting.json")
    again = voting(dims="8", heads="15,63", samples=votes.samples, seeds=1)
    old = {r.heads: r for r in votes.rows if r.dim == 8}
    for new in again.rows:
        assert new.two_layers[0] == pytest.approx(old[new.heads].two_layers[0], rel=1e-6)
        assert new.expected == pytest.approx(old[new.heads].expected)
    limits = LowerBound.read(RESULTS / "bound.json")
    for limit in limits.rows[:3]:
        assert lower_bound(limit.dim, limit.rank, limit.heads) == pytest.approx(limit.bound)
    assert [r.command.split()[:3] for r in (committed, votes, limits)] == [
        ["leanformer", "paper", name] for name in ("features", "voting", "bound")
    ]
