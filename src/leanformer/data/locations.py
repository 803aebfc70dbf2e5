"""Where local data sets are."""

import os
from pathlib import Path


def shown(path: Path) -> str:
    """A place as records name it: inside the data folder, by that folder's variable."""
    root = os.environ.get("LEANFORMER_DATA")
    if root is not None and path.resolve().is_relative_to(Path(root).resolve()):
        return str(Path("$LEANFORMER_DATA") / path.resolve().relative_to(Path(root).resolve()))
    return str(path)
