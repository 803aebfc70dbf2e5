"""The paper's printed figures beside ours.

`scorecard` recounts parameters on built models, `memory` counts training memory, and `record` is what both are written
to. The printed figures themselves are in `leanformer.models.published`.
"""
