"""Lean models that begin with a trained one's weights: which layers stay, how heads are added, what that changes."""
