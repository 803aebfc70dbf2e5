"""Shared by all tests: leanformer is imported before timm, so that timm imports beside any build of torch."""

import os

import pytest
import torch

import leanformer  # noqa: F401
from leanformer.foundation.registry import CODE_VARIABLE

torch.set_num_threads(1)  # two workers share two cores
os.environ.setdefault("OMP_NUM_THREADS", "1")  # and so do the processes that tests start


@pytest.fixture(autouse=True)
def code_that_a_test_loads_is_trusted_in_that_test_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CODE_VARIABLE, "")  # what a test adds to it goes with the test
