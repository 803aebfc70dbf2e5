"""What is recorded of one attention block: plain numbers over all of its matrices."""

from __future__ import annotations

from leanformer.foundation.records.base import PossiblyInfinite, RecordPart
from leanformer.models.base import Kind

Kappa = PossiblyInfinite
"""A condition number. It is infinite for singular matrices."""


class KappaSummary(RecordPart):
    """κ over the matrices of a layer. It is heavy-tailed, so the quartiles stand beside mean and maximum."""

    median: Kappa
    lower_quartile: Kappa
    upper_quartile: Kappa
    mean: Kappa
    max: Kappa


class LayerSummary(RecordPart):
    """The numbers of one attention block."""

    name: str
    """Name of the attention module in the model."""
    kind: Kind
    heads: int | None
    """None where the model does not show it."""
    head_dim: int | None
    tokens: int
    columns: int
    """Columns of the block, h·d."""
    matrices: int
    """One per sample, or per window where attention is windowed."""
    kappa: KappaSummary
    rank_deficient: int
    """Matrices without full rank."""
    limited_by_dtype: int
    """Matrices whose κ is as large as the rounding of the forward pass allows: the true value may be larger."""
    effective_rank: float
    stable_rank: float
