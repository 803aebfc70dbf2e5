"""Every command that the documents print is understood by the command line, and run.

What would take long is small: recipes have a tiny model and a few steps, studies run in this process, and models are
replaced by their smallest relatives. Commands that cannot run in a test are listed in `ELSEWHERE`, each with its
reason; they are parsed as printed, like the others.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
import typer
from PIL import Image

import leanformer as lf
from leanformer.cli import app
from leanformer.experiments import forecast, recipes
from leanformer.report import page as page_of_comparison
from leanformer.runners import choice
from support import tiny_run
from support.command import call
from support.glue import write_corpus, write_glue
from support.llama_cpp import tiny_llama, written_by_llama_cpp
from support.texts import reviews, write_table

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?:sh)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUN_BY_THEIR_OWN_TEST = ("own_data.md", "own_task.md")
"""Pages whose commands build on each other: tests/experiments/test_own_data_page.py and test_own_task_page.py."""

ELSEWHERE = {
    r"^explore( results)?$": "serves until it is stopped; tests/app drives it in a browser",
    r"decoder-1b": "1.1 billion parameters; tests/experiments/test_recipes.py counts them",
    r"s3://|ray": "needs a cluster or a bucket; tests/runners has both",
    r"^paper figure 3": "many trainings; tests/paper/test_figures.py",
    r"^status .*--watch": "waits for runs of another process; tests/experiments/test_status.py",
    r"--tune lr(?!.*--tune-share 0.25)": "many trainings; one such command runs here, tests/experiments/tuning",
    r"runs/pretrained|SmolLM2": "needs a package with a trained model; its record is in results/",
    r"--command": "needs the reader's script; tests/experiments/own_loop",
    r"…|SWEEP|ARM": "stands for what the reader has",
    r"^jobs |/shared/": "writes outside the test's folder; tests/experiments/test_status.py",
}
SMALLER = [
    (r"vit_(base|small)_patch16_224", "vit_tiny_patch16_224"),
    (r"^(measure vit_\S+)", r"\1 --batch 1"),
    (r"^bench vit_base", "bench vit_tiny"),
    (r"^bench gpt2", "bench tinystories-gpt2"),
    (r"^bench (tiny\S+)", r"bench \1 --decode 2"),
    (r"^bench (\S+)", r"bench \1 --seconds 0.01 --batch 2"),
    (r" --device cuda", ""),
    (r"--heads 4,8,16", "--heads 2 --depth 1"),
    (r"^theory$", "theory --model none --samples 2"),
    (r"^judge --simulate", "judge --simulate --sequences 100"),
    (r"--tune lr", "--tune lr --tune-seeds 1"),
    (r"--(batch|steps) \d+", r"--\1 2"),
    (r"--seeds \d+", "--seeds 1"),
    (r"^(compare|sweep)(?!.*--(seeds|until))", r"\1 --seeds 1"),
    (r"--until decided", "--until decided --max-seeds 4"),
    (r"--vary training.lr=\S+ --vary depth=\S+", "--vary training.lr=0.001,0.002 --vary depth=1,2"),
    (
        r"compare images (?!.*--dry-run)",
        "compare images --original depth=2,width=16,head_dim=8 --lean depth=1 ",
    ),
    (r"texts --data", "texts --set task.length=32 --data"),
    (r"--vary heads=3,6,12,24", "--vary heads=3,6"),
    (r"sweep images", "sweep images --original depth=1"),
    (r"llama --tokens 2048", "llama --tokens 64"),
    (r"--export design.html .*", "--export design.html --model vit_tiny_patch16_224"),
    (r'--original "(depth=4,)?width=\d+,[^"]*" --lean "[^"]*"', ""),
    (r"--set task\.(tokenizer|shift)=\S+", ""),
]


def commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for fence in FENCE.finditer(page.read_text(encoding="utf-8")):
            for line in fence[1].replace("\\\n", " ").splitlines():
                found = re.match(r"(?:torchrun .* -m |RAY_ADDRESS=\S+ )?leanformer (\S.*|$)", line)
                if found or line == "leanformer":
                    yield page.name, re.sub(r"\s+#.*$", "", found[1] if found else "").strip()


COMMANDS = sorted({command: page for page, command in commands()}.items())


@pytest.mark.parametrize("command", [command for command, _ in COMMANDS if "…" not in command])
def test_the_command_line_understands(command: str) -> None:
    words = shlex.split(command.split(" > ", maxsplit=1)[0])
    root = typer.main.get_command(app)
    with root.make_context("leanformer", list(words), resilient_parsing=True) as context:
        name, found, rest = root.resolve_command(context, words)
        while getattr(found, "commands", None) and rest and rest[0] in found.commands:
            name, found, rest = rest[0], found.commands[rest[0]], rest[1:]
        found.make_context(name, rest, parent=context)


def reason(command: str) -> str | None:
    return next((why for pattern, why in ELSEWHERE.items() if re.search(pattern, command)), None)


def test_every_reason_is_needed() -> None:
    assert not [pattern for pattern in ELSEWHERE if not any(re.search(pattern, command) for command, _ in COMMANDS)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the readers of all pages have."""
    root = tmp_path_factory.mktemp("reader")
    corpus = write_corpus(root / "book.txt")
    (root / "FILE").mkdir()
    (root / "FILE" / "texts.txt").write_text(corpus.read_text())
    for folder in ("photos", "DIR/train", "DIR/val"):
        for name in ("cat", "dog"):
            (root / folder / name).mkdir(parents=True)
            for number in range(10):
                pixels = np.random.default_rng(number).integers(0, 255, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(root / folder / name / f"{number}.png")
    write_glue(root / "data", "sst2")
    for place in ("path/to/minilm", "path/to/saved/model"):
        save_encoder(root / place)
    save_decoder(root / "path/to/model", root / "model.gguf")
    tiny_run.described(root / "path/to/run", steps=2, evaluations=1, save_every=None)
    lf.train(root / "path/to/run")
    scores = [(arm, seed, 90 + seed) for arm in ("original", "lean") for seed in range(4)]
    write_table(root / "scores.csv", ("arm", "seed", "score"), scores)
    for arm, seed, score in scores:
        (root / "runs" / arm / f"seed-{seed}").mkdir(parents=True)
        write_table(root / "runs" / arm / f"seed-{seed}" / "summary.csv", ("epoch", "eval_top1"), [(0, score)])
    (root / "my_file.py").write_text("from support import tiny_run\n\ndef my_recipe():\n    return tiny_run.recipe()\n")
    (root / "fit.py").write_text(OWN_LOOP)
    write_table(root / "reviews.csv", ("review", "verdict"), list(reviews(40)))
    return root


OWN_LOOP = """
from torch import nn

def Model(depth):
    return nn.Sequential(*(nn.Linear(2, 2) for _ in range(depth)))

def fit(model, seed, folder):
    return float(len(model))
"""

ENDS = ("an", "or", "el", "um", "ip")
"""Of the words of `write_corpus`."""


def save_encoder(folder: Path) -> None:
    folder.mkdir(parents=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"bcdfghklm", *(f"##{end}" for end in ENDS)]
    (folder / "vocab.txt").write_text("\n".join(words))
    sizes = dict(num_hidden_layers=6, hidden_size=24, num_attention_heads=12, intermediate_size=32)
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=512, **sizes)
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)


def save_decoder(folder: Path, file: Path) -> None:
    model = tiny_llama()
    written_by_llama_cpp(model, file)
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(folder)


def small_recipe(name: str) -> Any:
    """The recipes of the reader's own data and of GLUE as they are; all others tiny."""
    if name in ("images", "texts", "classify", "texts-masked") or name.startswith("glue-") or ":" in name:
        found = MADE(name)
        return replace(
            found, training=replace(found.training, steps=1, batch=4, evaluations=1, probe=0, save_every=None)
        )
    return tiny_run.recipe(name=name, training=tiny_run.training(steps=1, evaluations=1, probe=0, save_every=None))


MADE = recipes.recipe
QUICKLY: dict[str, Any] = dict(steps=1, evaluations=1, probe=0, save_every=None)


@pytest.fixture(autouse=True)
def quick(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world)
    monkeypatch.setenv("LEANFORMER_DATA", str(world / "data"))
    monkeypatch.setenv("LEANFORMER_CACHE", str(world / "cache"))
    monkeypatch.setattr(recipes, "recipe", small_recipe)
    monkeypatch.setattr(choice, "default_jobs", lambda threads: 1)
    monkeypatch.setattr(forecast, "STEPS", forecast.FIRST_STEPS + 2)
    monkeypatch.setattr(page_of_comparison, "FORMATS", (".svg",))


TO_RUN = [
    pytest.param(command, id=f"{page}: {command}")
    for command, page in COMMANDS
    if page not in RUN_BY_THEIR_OWN_TEST and not reason(command)
]


@pytest.mark.parametrize("command", TO_RUN)
def test_the_command_runs(command: str, world: Path, tmp_path: Path) -> None:
    smaller = command.split(" > ", maxsplit=1)[0]
    for pattern, instead in SMALLER:
        smaller = re.sub(pattern, instead, smaller)
    if re.match("compare|sweep", smaller) and "--dry-run" not in smaller and "--out" not in smaller:
        smaller += f" --out {tmp_path / 'study'}"
    done = call(*shlex.split(smaller))
    assert done.returncode == 0, f"{smaller}\n{done.stderr}"
    assert done.stdout or done.stderr
