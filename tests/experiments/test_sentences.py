"""Phrases as sentences."""

from leanformer.experiments.sentences import as_sentence


def test_a_sentence_begins_with_a_capital_unless_it_begins_with_a_symbol() -> None:
    assert as_sentence("lean holds") == "Lean holds."
    assert as_sentence("κ is not measured") == "κ is not measured."
