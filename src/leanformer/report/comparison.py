"""A comparison as a terminal table and in words, from its record alone."""

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from leanformer.report.numbers import parameters, score, significant, size

Record = Mapping[str, Any]

COLUMNS = ("arm", "layers", "heads", "MLP", "params", "memory", "step", "steps", "score", "κ")


def rows(record: Record) -> list[tuple[str, ...]]:
    """One row of text per arm, in the order of `COLUMNS`."""
    return [_row(arm, record["metric"]) for arm in record["arms"].values()]


def _row(arm: Record, metric: Record) -> tuple[str, ...]:
    stages = arm["architecture"]["stages"]

    def sizes(word: str) -> str:
        values = [stage[word] for stage in stages]
        return str(values[0]) if len(set(values)) == 1 else " ".join(map(str, values))

    return (
        arm["name"],
        " ".join(str(stage["depth"]) for stage in stages),
        f"{sizes('heads')} × {sizes('head_dim')}",
        sizes("mlp_dim"),
        parameters(arm["params"]),
        size(arm["memory_bytes"]),
        f"{1000 * arm['step_seconds']:.1f} ms" if arm["step_seconds"] else "–",
        f"{arm['steps']:,}",
        score(arm["score"], metric),
        significant(arm["kappa"]) if arm["kappa"] is not None else "–",
    )


def table(record: Record) -> Table:
    metric = record["metric"]
    title = f"{record['name']}: {metric['name']} ± 95 % interval over seeds"
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for name in headings(record):
        shown.add_column(name, justify="left" if name == "arm" else "right", no_wrap=True)
    for row in rows(record):
        shown.add_row(*row, style="bold" if row[0] == "lean" else "")
    return shown


def headings(record: Record) -> list[str]:
    metric = record["metric"]
    words = f"{metric['name']}, {metric['unit']}" if metric["unit"] else metric["name"]
    return [words if column == "score" else column for column in COLUMNS]


def saved(record: Record) -> list[str]:
    """What lean costs less than the original, in words."""
    arms = record["arms"]
    if "lean" not in arms or "original" not in arms:
        return []
    lean, original = arms["lean"], arms["original"]
    found = []
    for word, key in (
        ("parameters", "params"),
        ("training memory", "memory_bytes"),
        ("multiplications", "forward_macs"),
        ("time a step", "step_seconds"),
    ):
        if lean[key] and original[key]:
            share = 100 * (1 - lean[key] / original[key])
            found.append(f"{abs(share):.0f} % {'less' if share >= 0 else 'more'} {word}".replace("less p", "fewer p"))
    return [f"lean against original: {', '.join(found).replace('less multiplications', 'fewer multiplications')}"]


def words(record: Record) -> list[str]:
    """Verdict first, then what follows from it."""
    failures = [f"did not finish: {text}" for text in record["failures"].values()]
    said = [*record["verdict"]["all_words"], *saved(record), *failures] or [record["verdict"]["words"]]
    return [*said, *trivial(record)]


def trivial(record: Record) -> list[str]:
    """What answers score that need no training."""
    found = [f"{value:.3f} for {name}" for name, value in record.get("baselines", {}).items()]
    return [f"without training, the {record['metric']['name']} is {', '.join(found)}"] if found else []
