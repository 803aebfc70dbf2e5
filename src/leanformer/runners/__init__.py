"""Where runs run: in this process, in several worker processes of this machine, or on a Ray cluster.

A runner takes folders that describe runs and reports what happens to each. `choose` picks one.
"""

from leanformer.runners.base import Listener, Runner
from leanformer.runners.choice import choose
from leanformer.runners.where import Where

__all__ = ["Listener", "Runner", "Where", "choose"]
