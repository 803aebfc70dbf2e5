"""The counterpoint's theory for two points: the lower bound, random heads, and two layers that vote.

Two orthonormal points and a query are drawn uniformly from the unit sphere, as in the authors' code
(NoahAmsel/attention-formers). The target is the point nearer to the query. An error is a mean squared distance: the
origin scores 1, and the middle of the two points, which needs no query, scores ½. By symmetry all holds for the
farthest point too.
"""
