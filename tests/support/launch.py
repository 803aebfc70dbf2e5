"""`python launch.py FOLDER …`: trains the runs of folders on two ranks, as torchrun does, but imports only once.

torchrun itself and each of its processes import torch and timm, which takes longer than such a run. Here the ranks are
forked from one process that has imported them. `FOLDER:RANKS` trains on so many ranks, and `FOLDER:RANKS:STEP` stops
after so many steps, as a kill would. `families` divides small models of several families.
"""

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from accelerate import PartialState

from leanformer.models.own import story_gpt  # noqa: F401  imported before the fork
from leanformer.models.timm import vit  # noqa: F401
from leanformer.tasks import image_classes, next_token  # noqa: F401
from leanformer.training.loop import train

sys.path.insert(0, str(Path(__file__).parents[1]))  # it is started as a file, whichever the folder
from support.divided import divide_families

RANKS = 2


def run(act: Callable[[], None], ranks: int) -> bool:
    """Do something on every rank; says whether all have ended well."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.environ.update(WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks))

    children = []
    for rank in range(ranks):
        if (child := os.fork()) == 0:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
            try:
                act()
            except (ValueError, OSError) as error:
                print(f"rank {rank}: {error}", file=sys.stderr)
                sys.exit(1)
            sys.exit(0)
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    return not any(statuses)


def main(folder: str, ranks: int = RANKS, stop: int = 0) -> bool:
    def ended(step: int, loss: float) -> None:
        if step == stop:
            os._exit(0)

    def act() -> None:
        train(folder, say=print, progress=ended)
        assert PartialState().num_processes == ranks, "they did not train together"
        assert not stop, f"step {stop} was not reported"

    return run(divide_families if folder == "families" else act, ranks)


if __name__ == "__main__":
    jobs = [argument.split(":") for argument in sys.argv[1:]]
    well = [main(folder, *map(int, numbers)) for folder, *numbers in jobs]
    sys.exit(0 if all(well) else 1)
