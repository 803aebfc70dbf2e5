"""Shared by all tests: leanformer is imported before timm, so that timm imports beside any build of torch."""

import torch

import leanformer  # noqa: F401

torch.set_num_threads(1)  # two workers share two cores
