"""Families of Hugging Face models: one file per family, and what they share in `base`.

transformers is imported here, before any module of this folder: `leanformer.models.registration` registers our models
right after transformers is imported, and needs these modules whole.
"""

import transformers  # noqa: F401
