"""The Python snippets of the documents run as they are printed.

Only what would take long is small: recipes train a tiny model for a few steps, in this process, and new weights are not
drawn. Snippets of one page share their names, as a reader's session would.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import leanformer as lf
from leanformer.experiments import recipes
from leanformer.models import families
from leanformer.report import page as page_of_comparison
from leanformer.runners import choice
from support import tiny_run
from support.architectures import SMALL

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [
    page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if FENCE.search(page.read_text())
]


def small_recipe(name: str) -> Any:
    return tiny_run.recipe(name=name, training=tiny_run.training(steps=1, evaluations=1, probe=0, save_every=None))


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(recipes, "recipe", small_recipe)
    monkeypatch.setattr(choice, "default_jobs", lambda threads: 1)
    monkeypatch.setattr(page_of_comparison, "FORMATS", (".svg",))
    for draw in ("normal_", "uniform_", "erfinv_"):
        monkeypatch.setattr(torch.Tensor, draw, lambda self, *_, **__: self.zero_())
    yield
    torch.manual_seed(0)


def prepared(page: str) -> dict[str, Any]:
    """What a page's reader has already."""
    if page == "trained_models.md":
        sizes = dict(width=24, depth=6, heads=12, head_dim=2, mlp_dim=8, vocab_size=9, max_position_embeddings=16)
        lf.save_pretrained(lf.create("bert-base-uncased", **sizes), "path/to/minilm")
    if page != "measure.md":
        return {"lf": lf}
    model = families.build(SMALL["vit"])
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator) - 0.5)
    batch = torch.rand(2, 3, 32, 32, generator=generator)

    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(2):
            model(batch).sum().backward()
            optimizer.step()

    def trainer(*_: Any, callbacks: list[Any]) -> None:
        """Of the reader's own: the call is shown with an ellipsis."""
        assert callbacks

    return {"model": model, "batch": batch, "train": train, "Trainer": trainer}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_snippets_run(page: Path) -> None:
    text, names = page.read_text(encoding="utf-8"), prepared(page.name)
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        exec(compile("\n" * line + found[1], str(page), "exec"), names)


TAUGHT = [*sorted((ROOT / "docs" / "how_to").glob("*.md")), *sorted((ROOT / "docs" / "concepts").glob("*.md"))]


@pytest.mark.parametrize("page", TAUGHT, ids=lambda page: page.name)
def test_every_page_shows_something_and_has_something_to_type(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.name != "related_work.md":
        assert "![" in text
        assert re.search(r"^(leanformer|torchrun) |^```python", text, re.MULTILINE)


def test_every_page_is_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        assert page.name in readme
