"""The main job: arms × seeds on one task, resumable, and a record that says what holds.

A comparison is a folder: plan.json, a folder for every run, and comparison.json, from which reports are drawn. Runs of
one seed see the same batches in every arm. The same command on the same folder goes on where it stopped; more seeds or
arms are added to what is there. May import recipe, budgets, jobs, cost, statistics, records and training.
"""

from __future__ import annotations

import contextlib
import json
import statistics as plain_statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from leanformer.architecture import Architecture
from leanformer.costs.closed_forms import Setting, formula
from leanformer.experiments.budgets import Budget, steps_of, trained_for
from leanformer.experiments.recipe import Recipe
from leanformer.experiments.verdicts import Effects, Estimate, Verdict, compare_pairs, effects, estimate, signed
from leanformer.machine import from_first_process, is_first_process
from leanformer.models import registry as families
from leanformer.records.circumstances import circumstances
from leanformer.records.files import locked, number, plain, write_text
from leanformer.runners import workers as running
from leanformer.tasks import load
from leanformer.training.loop import check_tracker
from leanformer.training.run import Run, differences, read_back, write_run

Listener = Callable[[str, int, Mapping[str, Any]], None]
"""Hears of a run by arm and seed: progress (step, loss), said (text), done, diverged (text)."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A recipe with every choice made: what will be run."""

    recipe: Recipe
    seeds: tuple[int, ...]
    budget: Budget
    steps: Mapping[str, int]
    """Of each arm."""
    source: str
    """Where the data came from."""
    circumstances: Mapping[str, Any]
    """The command, the commit and the machine that began it."""
    tokens: int | None = None
    """Length of a text."""
    samples: int | None = 0
    """For training; None where they have no end."""

    def to_dict(self) -> dict[str, Any]:
        return read_back(
            {
                **self.recipe.to_dict(),
                "arms": list(self.recipe.arms),
                "seeds": list(self.seeds),
                "budget": asdict(self.budget),
                "steps": dict(self.steps),
                "source": self.source,
                "tokens": self.tokens,
                "samples": self.samples,
                "circumstances": self.circumstances,
            }
        )

    def runs(self) -> list[tuple[str, int]]:
        """Seed by seed, so that a comparison that is cut short has whole pairs."""
        return [(arm, seed) for seed in self.seeds for arm in self.recipe.arms]

    def run(self, arm: str, seed: int) -> Run:
        training = trained_for(self.recipe.training, self.steps[arm])
        return Run(
            name=arm,
            architecture=self.recipe.architecture(arm),
            task=self.recipe.task,
            training=training,
            seed=seed,
            start=_start(self.recipe.start, arm, seed),
        )


def _start(folder: str, arm: str, seed: int) -> str:
    """The trained run that this one begins with; seeds beyond those that were trained begin again with the first."""
    if not folder:
        return ""
    seeds = _read_json(Path(folder) / "plan.json")["seeds"]
    trained = folder_of(Path(folder), arm, seeds[seed % len(seeds)])
    if not (trained / "result.json").is_file():
        raise ValueError(f"{trained} is not finished: give its comparison's command again, then this one")
    return str(trained)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is damaged: {error}") from error


class NothingFinished(ValueError):  # noqa: N818
    """No run of a comparison has a result."""


SETTLED = ("name", "task", "training", "budget", "start", "samples", "original", "lean")
"""What of a plan cannot change once it is begun, beside the arms that it has."""


def folder_of(out: Path, arm: str, seed: int) -> Path:
    return out / arm / f"seed-{seed}"


Planned = Callable[[Plan, Sequence[tuple[str, int]]], None]
"""Hears the plan, and which of its runs are still to do, by arm and seed."""


def compare(
    recipe: Recipe | str = "digits",
    *,
    out: str | Path | None = None,
    arms: Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    budget: str | None = None,
    margin: float | None = None,
    jobs: int | None = None,
    log_with: str = "",
    say: Callable[[str], None] = lambda message: None,
    planned: Planned = lambda plan, runs: None,
    listen: Listener = lambda arm, seed, event: None,
) -> dict[str, Any]:
    """Train every arm with every seed and say what holds; returns the record that comparison.json keeps.

    >>> record = lf.compare("digits", seeds=5)
    >>> record["verdict"]["words"]

    Args:
        recipe: a recipe or the name of one (`leanformer recipes` lists them).
        out: the comparison's folder [default: runs/compare-RECIPE].
        arms: of original, lean, shallow, wide and the recipe's own; the recipe's by default.
        seeds: how many, or which.
        budget: what is held equal: steps, epochs, tokens, flops or time, with or without an amount ("time=10m"); the
            recipe's by default.
        margin: by how much the metric may be worse and the model still hold.
        jobs: runs at a time [default: one per GPU or per core].
        log_with: tensorboard, trackio or wandb.
        say, planned, listen: hear messages, the plan before it is run, and what the runs do.
    """
    if isinstance(recipe, str):
        from leanformer.experiments.recipes import recipe as named

        recipe = named(recipe)
    recipe = _with_choices(recipe, arms, margin)
    chosen, equal = _seeds(recipe.seeds if seeds is None else seeds), Budget.parse(budget or recipe.budget)
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    out = Path(out) if out is not None else Path("runs") / f"compare-{recipe.name}"
    check_tracker(log_with)
    with contextlib.ExitStack() as stack:
        from_first_process(lambda: stack.enter_context(locked(out)))
        data = load(recipe.task)
        if is_first_process():
            say(f"data: {data.source}" + (f", {data.size:,} training samples" if data.size else ""))
        fitted = recipe.fitted(data.options)
        plan = from_first_process(lambda: _plan(fitted, chosen, equal, out, data, margin))
        open_runs = {
            folder_of(out, arm, seed): (arm, seed)
            for arm, seed in plan.runs()
            if not (folder_of(out, arm, seed) / "result.json").is_file()
        }
        planned(plan, list(open_runs.values()))

        def hear(folder: Path, event: Mapping[str, Any]) -> None:
            if is_first_process():
                listen(*open_runs[folder], event)

        if not open_runs and is_first_process():
            say(f"{out} is complete: nothing to train (another --out, more --seeds or --arms run more)")
        threads = recipe.training.threads
        workers = running.default_jobs(threads) if jobs is None else jobs
        running.run_all(list(open_runs), workers, hear, threads, log_with)
        record = summarise(out)
        if is_first_process():
            write_record(record, out)
        return record


def _with_choices(recipe: Recipe, arms: Sequence[str] | None, margin: float | None) -> Recipe:
    chosen = (*(recipe.arms if arms is None else arms), *(recipe.others if arms is None else ()))
    recipe = replace(recipe, arms=tuple(dict.fromkeys(chosen)), margin=recipe.margin if margin is None else margin)
    if not recipe.arms:
        raise ValueError("arms must name at least one arm")
    if recipe.margin < 0:
        raise ValueError(f"margin must not be negative, got {recipe.margin}")
    recipe.architectures()  # an unknown arm is told here
    return recipe


def _seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(seeds, int):
        if seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {seeds}")
        return tuple(range(seeds))
    if not seeds or min(seeds) < 0:
        raise ValueError(f"seeds must be whole numbers from 0 on, got {list(seeds)}")
    return tuple(sorted(set(seeds)))


def _plan(recipe: Recipe, seeds: tuple[int, ...], budget: Budget, out: Path, data: Any, margin: float | None) -> Plan:
    """The plan, joined with the one that the folder holds already, written down with a folder for every run."""
    for arm, design in recipe.architectures().items():
        _fits(arm, design, data)
    path = out / "plan.json"
    there = _read_json(path) if path.is_file() else None
    steps = dict(there["steps"]) if there else {}
    if there:
        _same(there, recipe, budget, out, data)
        if margin is None:
            recipe = replace(recipe, margin=there["margin"])
        seeds = tuple(sorted({*seeds, *there["seeds"]}))
        kept = [arm for arm in there["arms"] if arm not in recipe.arms]
        others = {arm: Architecture.from_dict(there["architectures"][arm]) for arm in kept}
        recipe = replace(recipe, arms=(*recipe.arms, *kept), others={**recipe.others, **others})
    if missing := {arm: recipe.architecture(arm) for arm in recipe.arms if arm not in steps}:
        steps |= steps_of(budget, missing, recipe.original, data, recipe.training)
    plan = Plan(
        recipe=recipe,
        seeds=seeds,
        budget=budget,
        steps=steps,
        source=data.source,
        circumstances=there["circumstances"] if there else circumstances().model_dump(),
        tokens=data.tokens,
        samples=data.size,
    )
    write_text(path, json.dumps(plan.to_dict(), indent=2) + "\n")
    for arm, seed in plan.runs():
        write_run(plan.run(arm, seed), folder_of(out, arm, seed))
    return plan


def _fits(arm: str, design: Architecture, data: Any) -> None:
    if data.tokens is not None:
        try:
            families.example_inputs(design, 1, data.tokens)
        except ValueError as error:
            raise ValueError(f"{arm}: {error}") from error
    for option, wanted in data.options.items():
        if option in design.options and design.options[option] != wanted:
            raise ValueError(f"{arm} is built with {option}={design.options[option]!r}, but the data need {wanted!r}")


def _same(there: Mapping[str, Any], recipe: Recipe, budget: Budget, out: Path, data: Any) -> None:
    """What was planned before must be what is asked for now, but for seeds, further arms and the margin."""
    here = read_back({**recipe.to_dict(), "budget": asdict(budget), "samples": data.size})
    common = {arm: design for arm, design in here["architectures"].items() if arm in there["architectures"]}
    wanted = {key: here[key] for key in SETTLED} | {"architectures": common}
    found = {key: there.get(key, "") for key in wanted} | {
        "architectures": {arm: there["architectures"][arm] for arm in common}
    }
    if found != wanted:
        raise ValueError(f"{out} holds another comparison: {differences(found, wanted)}; choose another --out")


# The record


def write_record(record: Mapping[str, Any], folder: Path) -> None:
    write_text(folder / "comparison.json", json.dumps(plain(record), indent=1, allow_nan=False) + "\n")


def read_record(path: Path) -> dict[str, Any]:
    """The record of a comparison: made anew of a folder with runs, or read where there is only the record."""
    if (path / "plan.json").is_file():
        return summarise(path)
    file = path / "comparison.json" if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"{path} holds no comparison: neither plan.json nor comparison.json is there")
    record = _read_json(file)
    if record.get("kind") != "comparison":
        raise ValueError(f"{file} is no record of a comparison")
    return record


def summarise(out: Path) -> dict[str, Any]:
    """The record of a comparison from its folder alone: costs and scores by arm, verdicts, and every run's curves."""
    path = out / "plan.json"
    if not path.is_file():
        raise ValueError(f"{out} is no comparison: it holds no plan.json")
    plan = _read_json(path)
    failures = {
        (arm, seed): _read_json(folder_of(out, arm, seed) / running.DIVERGED)["text"]
        for arm in plan["arms"]
        for seed in plan["seeds"]
        if (folder_of(out, arm, seed) / running.DIVERGED).is_file()
    }
    results = {arm: _results(out, arm, plan["seeds"]) for arm in plan["arms"]}
    metric = next((result["metric"] for runs in results.values() for result in runs.values()), None)
    if metric is None:
        raise NothingFinished(
            f"no run in {out} is finished yet" + "".join(f"; {text}" for text in (failures or {}).values())
        )
    baselines = next(result.get("baselines", {}) for runs in results.values() for result in runs.values())
    scores = {
        arm: {seed: result["final"][metric["name"]] for seed, result in runs.items()} for arm, runs in results.items()
    }
    return {
        "kind": "comparison",
        **{key: plan[key] for key in ("name", "source", "seeds", "budget", "margin")},
        "metric": metric,
        "baselines": baselines,
        "arms": {arm: _arm(out, arm, plan, results[arm], metric["name"]) for arm in plan["arms"]},
        "verdict": _verdict(scores, plan["margin"], metric, [arm for arm, _ in failures]),
        "failures": {f"{arm}, seed {seed}": text for (arm, seed), text in failures.items()},
        "task": plan["task"],
        "training": plan["training"],
        "runs": {
            arm: {
                str(seed): {"evaluations": result["evaluations"], "losses": _thinned(result["losses"])}
                for seed, result in runs.items()
            }
            for arm, runs in results.items()
        },
        **plan["circumstances"],
    }


def _thinned(curve: Sequence[Any], most: int = 100) -> list[Any]:
    """A curve with no more points than a figure shows, the last one among them."""
    every = -(-len(curve) // most) if curve else 1
    return list(reversed(list(reversed(curve))[::every]))


def _results(out: Path, arm: str, seeds: Sequence[int]) -> dict[int, dict[str, Any]]:
    found = {seed: folder_of(out, arm, seed) / "result.json" for seed in seeds}
    return {seed: json.loads(path.read_text(encoding="utf-8")) for seed, path in found.items() if path.is_file()}


def _arm(out: Path, arm: str, plan: Mapping[str, Any], runs: Mapping[int, Any], metric: str) -> dict[str, Any]:
    """What an arm costs and what it scored."""
    architecture = Architecture.from_dict(plan["architectures"][arm])
    training = plan["training"]
    precision = "float32" if training["precision"] == "float32" else "bfloat16"
    setting = Setting(
        batch=training["batch"] // training["accumulate"],
        tokens=plan.get("tokens"),
        precision=precision,  # type: ignore[arg-type]
    )
    cost = formula(architecture, setting).cost(architecture, setting)
    scores = [result["final"][metric] for result in runs.values()]
    last = [result["evaluations"][-1].get("kappa") for result in runs.values()]
    kappas = [number(kappa["median_over_layers"]) for kappa in last if kappa]
    return {
        "name": arm,
        "architecture": architecture.to_dict(),
        "params": cost.params.total,
        "forward_macs": cost.forward_macs / setting.batch,
        "memory_bytes": cost.memory_bytes,
        "step_seconds": _step_seconds([folder_of(out, arm, seed) for seed in runs]),
        "steps": plan["steps"][arm],
        "score": asdict(estimate(scores)) if scores else None,
        "scores": {str(seed): score for seed, score in zip(runs, scores, strict=True)},
        "kappa": plain_statistics.median(kappas) if kappas else None,
    }


def _step_seconds(folders: Sequence[Path]) -> float | None:
    """Median over stretches of steps of all seeds."""
    times = []
    for folder in folders:
        path = folder / "timing.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
            with contextlib.suppress(json.JSONDecodeError):  # a kill may have cut the last line
                record = json.loads(line)
                times.append(record["seconds"] / record["steps"])
    return plain_statistics.median(times) if times else None


def _verdict(
    scores: Mapping[str, Mapping[int, float]], margin: float, metric: Mapping[str, Any], diverged: Sequence[str]
) -> dict[str, Any]:
    """Lean against the original and against the control; the parts due to depth and to heads; all in words.

    An arm of which a run diverged is not judged by its luckier runs.
    """
    sign, resolution = (1 if metric["higher_is_better"] else -1), metric.get("resolution", 0.0)

    def judged(arm: str, against: str) -> Verdict | None:
        ours, theirs = scores.get(arm, {}), scores.get(against, {})
        if not ours.keys() & theirs.keys():
            return None
        found = compare_pairs(arm, against, ours, theirs, margin, sign, metric["unit"], resolution)
        lost = [f"{diverged.count(name)} of {name}" for name in (arm, against) if name in diverged]
        if not lost:
            return found
        words = f"cannot tell: runs diverged ({', '.join(lost)}); of the others, {found.words}"
        return replace(found, outcome="cannot tell", words=words)

    lean = {against: found for against in ("original", "shallow") if (found := judged("lean", against))}
    others = [
        found for arm in scores if arm not in ("original", "lean", "shallow") and (found := judged(arm, "original"))
    ]
    parts = effects(scores, sign, resolution)
    words = [verdict.words for verdict in (*lean.values(), *others)]
    if parts is not None and parts.total.t is not None:
        words.append(_attribution(parts, metric["unit"]))
    return {
        "outcome": lean["original"].outcome if "original" in lean else None,
        "words": words[0] if words else "nothing to compare: a verdict needs the arms lean and original",
        "all_words": words,
        "lean": {against: verdict.to_dict() for against, verdict in lean.items()},
        "others": {verdict.arm: verdict.to_dict() for verdict in others},
        "effects": parts.to_dict() if parts else None,
    }


def _attribution(parts: Effects, unit: str) -> str:
    def shown(part: Estimate) -> str:
        told = part.t is None or part.t.low > 0 or part.t.high < 0
        return signed(part, unit) + ("" if told else ", not told from zero")

    return (
        f"the difference is the sum of two: fewer layers alone (shallow − original) {shown(parts.depth)}; "
        f"heads and MLP at that depth (lean − shallow) {shown(parts.heads)}"
    )
