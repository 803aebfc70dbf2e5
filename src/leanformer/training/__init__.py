"""One training run: its settings, one step, the loop, its state, evaluation, checkpoints and result."""
