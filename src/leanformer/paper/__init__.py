"""The two papers' printed figures: `ledger` holds them as data, `scorecard` recounts them from built models."""
