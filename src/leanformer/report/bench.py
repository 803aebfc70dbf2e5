"""What a bench shows: a column for each design, and how its times compare with what it is counted to cost."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from rich.table import Table

from leanformer.architecture import Architecture
from leanformer.costs.speed import WORKLOADS, Bench, Timed
from leanformer.foundation.formats import NOTHING, billions, counted, milliseconds, parameters, size
from leanformer.report import cells, tables
from leanformer.report.figures import bench as figures
from leanformer.report.views import Figures, RecordView

NAMES = {
    "training": "training step",
    "inference": "inference, batch",
    "latency": "latency, one sample",
    "decoding": "decoding, a text",
}
"""What each workload's time is of."""


class BenchView(RecordView[Bench]):
    def table(self, record: Bench) -> Table:
        head = ["", *(design.name for design in record.designs)]
        rows = [
            ["layers", *(" ".join(str(stage.depth) for stage in one.architecture.stages) for one in record.designs)],
            ["heads", *(_heads(one.architecture) for one in record.designs)],
            ["MLP", *(cells.sizes(one.architecture, "mlp_dim") for one in record.designs)],
            self._row(record, "parameters", "parameters", [parameters(one.params) for one in record.designs]),
            self._row(record, "MACs per sample, G", "MACs", [billions(one.macs) for one in record.designs]),
            self._row(
                record,
                f"training memory, {record.memory_is}",
                "training memory",
                [size(one.memory_bytes) for one in record.designs],
            ),
        ]
        if any(one.cache_bytes for one in record.designs):
            caches = [size(one.cache_bytes) for one in record.designs]
            rows.append(self._row(record, "cache per token", "cache", caches))
        for workload in WORKLOADS:
            found = [design.at(workload) for design in record.designs]
            if any(found):
                unit = "tokens" if workload == "decoding" else "samples"
                rows.append([NAMES[workload], *map(_time, found)])
                rows.append([f"  {unit} per second", *(f"{one.per_second:,.4g}" if one else NOTHING for one in found)])
        return tables.terminal(self.title(record), head, rows)

    def title(self, record: Bench) -> str:
        texts = f" of {counted(record.tokens, 'token')}" if record.tokens else ""
        threads = f", {counted(record.machine.threads, 'thread')}" if record.device == "cpu" else ""
        return (
            f"{record.model} on {record.device}{threads}: batch {record.batch}{texts}, {record.precision}, "
            f"{record.attention} attention"
        )

    @staticmethod
    def _row(record: Bench, words: str, name: str, shown: list[str]) -> list[str]:
        """A count of all designs, and what it is of the original's."""
        shares = [record.shares(design).get(name) for design in record.designs]
        others = [text if share is None else f"{text}  {share:.2f}" for text, share in zip(shown, shares, strict=True)]
        return [words, shown[0], *others[1:]]

    def sentences(self, record: Bench) -> list[str]:
        return [f"{words}." for words in record.sentences()]

    def figures(self, record: Bench) -> Figures:
        return {"bench": lambda: draw(record)} if len(record.designs) > 1 else {}

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


def draw(record: Bench) -> Figure:
    return figures.ratios(record, NAMES)


def _time(one: Timed | None) -> str:
    if one is None:
        return NOTHING
    return milliseconds(one.seconds) if one.ratio is None else f"{milliseconds(one.seconds)}  {one.ratio.words}"


def _heads(architecture: Architecture) -> str:
    return f"{cells.sizes(architecture, 'heads')} × {cells.sizes(architecture, 'head_dim')}"
