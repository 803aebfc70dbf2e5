"""What a bench shows: a column for each design, and how its times compare with what it is counted to cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from leanformer.costs.speed import WORKLOADS, Bench, Timed
from leanformer.foundation.formats import NOTHING, counted, large, milliseconds, parameters, size
from leanformer.report import cells, tables
from leanformer.report.figures import bench as figures
from leanformer.report.views import Figures, RecordView

NAMES = {
    "training": "training step",
    "inference": "inference, batch",
    "latency": "latency, one sample",
    "decoding": "decoding",
}
"""What was timed, in words."""


class BenchView(RecordView[Bench]):
    def table(self, record: Bench) -> Table:
        head = ["", *(design.name for design in record.designs)]
        divided = "; beside them, divided by the original's" if len(record.designs) > 1 else ""
        rows = [*_sizes(record), *_counts(record), *_times(record)]
        return tables.terminal(f"{self.title(record)}{divided}", head, rows)

    def title(self, record: Bench) -> str:
        texts = f" of {counted(record.tokens, 'token')}" if record.tokens else ""
        threads = f", {counted(record.machine.threads, 'thread')}" if record.device == "cpu" else ""
        return (
            f"{record.model} on {record.device}{threads}: batch {record.batch}{texts}, {record.precision}, "
            f"{record.attention} attention"
        )

    def sentences(self, record: Bench) -> list[str]:
        return [f"{words}." for words in record.sentences()]

    def figures(self, record: Bench) -> Figures:
        return {"bench": lambda: figures.ratios(record, NAMES, self.title(record))} if len(record.designs) > 1 else {}

    def rows(self, record: Bench) -> list[dict[str, Any]]:
        return [
            {
                **{"design": design.name, "params": design.params, "macs": design.macs},
                **{"memory_bytes": design.memory_bytes, "cache_bytes": design.cache_bytes},
                **one.model_dump(exclude={"ratio", "quartiles"}),
                **({f"ratio_{key}": value for key, value in one.ratio.model_dump().items()} if one.ratio else {}),
            }
            for design in record.designs
            for one in design.timed
        ]


def _sizes(record: Bench) -> Iterator[list[str]]:
    designs = [design.architecture for design in record.designs]
    yield ["layers", *(" ".join(str(stage.depth) for stage in one.stages) for one in designs)]
    yield ["heads", *(f"{cells.sizes(one, 'heads')} × {cells.sizes(one, 'head_dim')}" for one in designs)]
    yield ["MLP", *(cells.sizes(one, "mlp_dim") for one in designs)]


def _counts(record: Bench) -> Iterator[list[str]]:
    designs = record.designs
    yield _with_shares(record, "parameters", "parameters", [parameters(one.params) for one in designs])
    yield _with_shares(record, "MACs per sample", "MACs", [large(one.macs) for one in designs])
    memory = [size(one.memory_bytes) for one in designs]
    yield _with_shares(record, f"training memory, {record.memory_is}", "training memory", memory)
    if any(one.cache_bytes for one in designs):
        yield _with_shares(record, "cache per token", "cache", [size(one.cache_bytes) for one in designs])


def _with_shares(record: Bench, words: str, name: str, shown: list[str]) -> list[str]:
    """A count of all designs, and what it is of the original's."""
    shares = [record.shares(design).get(name) for design in record.designs[1:]]
    others = [text if share is None else f"{text}  {share:.2f}" for text, share in zip(shown[1:], shares, strict=True)]
    return [words, shown[0], *others]


def _times(record: Bench) -> Iterator[list[str]]:
    for workload in WORKLOADS:
        found = [design.at(workload) for design in record.designs]
        if any(found):
            unit = next(one.unit for one in found if one)
            length = f", {counted(record.decoded, 'token')}" if workload == "decoding" and record.decoded else ""
            yield [f"{NAMES[workload]}{length}", *map(_time, found)]
            yield [f"  {unit} per second", *(f"{one.per_second:,.4g}" if one else NOTHING for one in found)]


def _time(one: Timed | None) -> str:
    if one is None:
        return NOTHING
    return milliseconds(one.seconds) if one.ratio is None else f"{milliseconds(one.seconds)}  {one.ratio.words}"
