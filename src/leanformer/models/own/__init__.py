"""Families whose models are our own: one file per family, and what they share in `base`."""

import leanformer.models.huggingface  # noqa: F401  see there: transformers is imported first
