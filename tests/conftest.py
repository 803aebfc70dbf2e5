"""Shared by all tests: leanformer is imported before timm, so that timm imports beside any build of torch."""

import os

import hypothesis
import pytest
import torch

import leanformer  # noqa: F401
from leanformer.foundation.registry import CODE_VARIABLE
from support.amount import COMPLETE

torch.set_num_threads(1)  # two workers share two cores
os.environ.setdefault("OMP_NUM_THREADS", "1")  # and so do the processes that tests start

hypothesis.settings.register_profile("sampled", max_examples=100 if COMPLETE else 30, deadline=None)
hypothesis.settings.load_profile("sampled")


@pytest.fixture(autouse=True)
def code_that_a_test_loads_is_trusted_in_that_test_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CODE_VARIABLE, "")  # what a test adds to it goes with the test
