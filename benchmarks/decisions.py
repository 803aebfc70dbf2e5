"""`python -m benchmarks.decisions`: does the default comparison decide, whatever its seeds?

It repeats `leanformer compare` with other seeds and writes what each repetition said to results/bench/decisions.json.
Repeated, it resumes: finished runs are kept under runs/decisions.
"""

import argparse
from pathlib import Path

import leanformer as lf
from leanformer.foundation.records.circumstances import circumstances
from leanformer.foundation.records.files import write_json

RESULT = Path(__file__).parents[1] / "results" / "bench" / "decisions.json"
APART = 100
"""Between the first seeds of two repetitions."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="Repetitions.")
    parser.add_argument("--jobs", type=int, default=None, help="Runs at a time.")
    parser.add_argument("--out", type=Path, default=Path("runs/decisions"))
    given = parser.parse_args()
    rows = []
    for number in range(given.runs):
        record = lf.compare(
            arms=["original", "lean"],
            first_seed=APART * number,
            out=given.out / str(number),
            jobs=given.jobs,
            report=False,
            progress=False,
        )
        rows.append({"first_seed": APART * number, "seeds": len(record.seeds), "outcome": record.verdict.outcome})
        print(f"first seed {APART * number}: {record.verdict.words}", flush=True)
    decided = sum(row["outcome"] != "cannot tell" for row in rows)
    print(f"decided: {decided} of {len(rows)}")
    write_json(RESULT, {"decided": decided, "rows": rows, **circumstances().model_dump()})


if __name__ == "__main__":
    main()
