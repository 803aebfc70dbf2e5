"""What type checkers see of the public functions. `make lint` checks this file; it is never run."""

from collections.abc import Mapping
from typing import Any, assert_type

import leanformer as lf


def results(dry: bool, task: lf.Task, train: Any) -> None:
    assert_type(lf.compare("digits", seeds=3), lf.Comparison)
    assert_type(lf.compare("digits", dry_run=False), lf.Comparison)
    assert_type(lf.compare("digits", dry_run=True, seeds=3), lf.Forecast)
    assert_type(lf.compare(dry_run=dry), lf.Comparison | lf.Forecast | lf.Status)
    assert_type(lf.compare("digits", plan_only=True), lf.Status)
    assert_type(lf.sweep("digits", plan_only=True), lf.Status)
    assert_type(lf.compare(train=train, original="gpt2", lean="depth=6"), lf.Comparison)
    assert_type(lf.sweep("digits", heads=[1, 2]), lf.Sweep)
    assert_type(lf.sweep("digits", vary="heads=1,2", dry_run=True), lf.Forecast)
    assert_type(lf.sweep(train=train, model=train, branches=[1, 2]), lf.Sweep)
    assert_type(task.options, Mapping[str, Any])
    lf.compare("digits", nonsense=3)  # type: ignore[call-overload]
    lf.compare("digits", seeds="many")  # type: ignore[arg-type]
    lf.sweep("digits", dry_run=True, steps="many")  # type: ignore[call-overload]
