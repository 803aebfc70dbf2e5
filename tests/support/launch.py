"""`python launch.py FOLDER`: trains the run of a folder on two ranks, as torchrun does, but imports only once.

torchrun itself and each of its processes import torch and timm, which takes longer than such a run. Here the ranks are
forked from one process that has imported them.
"""

import os
import socket
import sys

from accelerate import PartialState

from leanformer.models.timm import vit  # noqa: F401  imported before the fork
from leanformer.tasks import image_classes  # noqa: F401
from leanformer.training.loop import train

RANKS = 2


def main(folder: str) -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.environ.update(WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS))
    ranks = {}
    for rank in range(RANKS):
        if (child := os.fork()) == 0:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
            train(folder)
            assert PartialState().num_processes == RANKS, "they did not train together"
            sys.exit(0)
        ranks[child] = rank
    failed = False
    while ranks:
        child, status = os.wait()
        del ranks[child]
        failed = failed or status != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
