"""The paper's printed figures beside ours.

`scorecard` recounts parameters on built models, `memory` counts training memory, `claims` holds every claim of both
papers, `rules` judges them by committed records (`evidence`), `cited` has the settings of the cited code, and `record`
is what all is written to. The printed figures themselves are in `leanformer.models.published`.
"""
