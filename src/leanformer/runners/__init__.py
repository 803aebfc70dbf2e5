"""Where runs run: in this process, or in several worker processes of this machine.

A runner takes folders that describe runs and reports what happens to each. `choose` picks one.
"""

from leanformer.runners.base import Listener, Runner
from leanformer.runners.choice import choose

__all__ = ["Listener", "Runner", "choose"]
