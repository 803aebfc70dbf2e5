"""The paper's figures and tables as commands: trained small, drawn in the paper's form, or planned with their cost."""

from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

from leanformer.experiments import recipes
from leanformer.experiments.sweep_records import Sweep
from leanformer.foundation.records.circumstances import fields_of
from leanformer.paper import figures
from leanformer.paper.construction import Construction, construction
from leanformer.paper.drawn import PaperFigure
from leanformer.paper.figures import NUMBERS, drawn, figure
from leanformer.paper.parts import parts
from leanformer.paper.tables import table
from support import tiny_run

PAPER = Path(__file__).parents[2] / "results" / "paper"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_figure_is_trained_resumed_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tiny_run.recipe(name="fashion-mnist", training=tiny_run.training(steps=2, evaluations=1, save_every=None))
    monkeypatch.setattr(recipes, "recipe", lambda name: recipe)
    for number, axes, original in (
        (3, {"heads": (2, 4), "depth": (2, 1)}, {"heads": 2, "depth": 2}),
        (2, {"heads": (2, 4)}, {"heads": 2}),
    ):
        small = replace(figures.STUDIES[number], axes=axes, original=original)
        monkeypatch.setitem(figures.STUDIES, number, small)
        out = tmp_path / f"figure-{number}"
        record = figure(number, seeds=2, jobs=1, out=out)
        assert {file.name for file in out.iterdir()} >= {f"figure-{number}.png", "figure.json"}
        assert len(list((tmp_path / "paper-grid-fashion-mnist").rglob("result.json"))) == 8, "figures share designs"
        assert PaperFigure.read(out / "figure.json").points == record.points
        assert figure(number, seeds=2, jobs=1, out=out, report=False).points == record.points, (
            "nothing is trained again"
        )
        if number == 3:
            assert [(p.panel, p.x) for p in record.points] == [(d, h) for h in (2, 4) for d in ("2 layers", "1 layer")]
            assert record.original == record.points[0].y
            assert record.points[0].note == "5k"
        else:
            assert {p.panel for p in record.points} == {"mean over layers, as printed", "median over layers"}
            assert {p.line for p in record.points} == {"step 0", "step 2"}


def test_a_figure_of_another_recipe_has_its_sizes() -> None:
    study = figures.STUDIES[5].on("cifar10")
    assert study.grid == {"heads": (4, 6, 8), "depth": (8, 5, 4), "mlp_dim": (512, 1024)}
    assert study.original == {"heads": 4, "depth": 8, "mlp_dim": 512}
    assert figures.STUDIES[3].on("digits").grid == {"heads": (1, 2, 4, 6, 8), "depth": (6, 4), "mlp_dim": (128,)}
    with pytest.raises(ValueError, match="figures take recipes whose model has one stage; imagenet-davit-base has 4"):
        figure(3, recipe="imagenet-davit-base")
    with pytest.raises(ValueError, match="recipe is for figures that are trained here, at laptop scale"):
        figure(6, recipe="digits")


@pytest.mark.parametrize("place", sorted(path.parent.name for path in PAPER.glob("figure-[34589]*/figure.json")))
def test_committed_figures_show_what_their_grids_have(place: str) -> None:
    number, _, recipe = place.removeprefix("figure-").partition("-")
    study = figures.STUDIES[int(number)]
    study = study.on(recipe) if recipe else study
    committed = PaperFigure.read(PAPER / place / "figure.json")
    again = drawn(int(number), study, Sweep.read(PAPER / f"grid-{study.recipe}" / "sweep.json"))
    assert again.changed(**fields_of(committed)) == committed
    assert len(committed.points) == prod(map(len, study.axes.values()))
    assert (PAPER / place / f"figure-{number}.png").is_file()


def test_figure_5_has_a_panel_for_each_depth_and_a_line_for_each_mlp() -> None:
    record = PaperFigure.read(PAPER / "figure-5" / "figure.json")
    assert {point.panel for point in record.points} == {"8 layers", "5 layers", "4 layers"}
    assert {point.line for point in record.points} == {"MLP 256", "MLP 512"}
    notes = {(point.panel, point.line, point.x): point.note for point in record.points}
    assert notes["8 layers", "MLP 256", 4] == "", "the original"
    assert notes["4 layers", "MLP 256", 4] == "-49 %"


def test_a_figure_is_planned_at_the_papers_scale(tmp_path: Path) -> None:
    record = figure(8, scale="paper", out=tmp_path)
    assert record.plan is not None
    assert len(record.plan.designs) == 8
    assert {design.params for design in record.plan.designs} >= {209_802, 192_906, 209_482, 226_058}
    assert 0 < record.plan.hours < 1
    assert "leanformer sweep listops-paper --vary heads=2,4,6,8 --vary depth=2,1" in record.plan.words
    assert record.printed == ("(2, 2) 36.79 %", "(1, 4) 37.13 %")


def test_pairs_of_a_table_are_drawn_from_the_recount(tmp_path: Path) -> None:
    record = figure(7, out=tmp_path)
    assert [p.note for p in record.points if p.panel.startswith("fewer")] == [
        *("ViT-L", "DeiT-L", "XCiT-L", "VOLO-d4", "DaViT-L")
    ]
    assert (tmp_path / "figure-7.png").is_file()
    with pytest.raises(ValueError, match="the figures are 2, 3, 4, 5, 6, 7, 8, 9, got 1"):
        figure(1)
    with pytest.raises(ValueError, match="scale must be laptop or paper, got 'huge'"):
        figure(3, scale="huge")  # type: ignore[arg-type]
    assert list(range(2, 10)) == NUMBERS


def test_tables(tmp_path: Path) -> None:
    printed = table(2, scale="paper", out=tmp_path)
    assert (
        "printed",
        "GPT-2, TinyStories, original",
        "12",
        "12",
        "89 M",
        "validation loss 2.47",
        "12.8 GB",
    ) in printed.rows
    assert printed.plan is not None
    assert "A6000-hours per seed on TinyStories" in printed.plan.words
    assert (tmp_path / "table.md").read_text(encoding="utf-8").startswith("# Table 2: GPT-2 on TinyStories")
    settings = table(6, out=tmp_path / "six")
    assert len(settings.rows) == 13
    assert {row[2] for row in settings.rows} == {"the same"}
    with pytest.raises(ValueError, match="the tables are 1, 2, 3, 4, 5, 6, got 7"):
        table(7)
    with pytest.raises(ValueError, match="Table 3 has no recipe digits; it has listops, text, retrieval, image"):
        table(3, recipes="digits")
    with pytest.raises(ValueError, match="Table 4 has no recipe x; it has none at laptop scale"):
        table(4, recipes="x")


def test_a_table_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = tiny_run.recipe(
        name="pycode", training=tiny_run.training(steps=1, evaluations=1, probe=0, save_every=None)
    )
    monkeypatch.setattr(recipes, "recipe", lambda name: recipe)
    record = table(2, recipes="pycode", seeds=1, jobs=1, out=tmp_path, report=False)
    trained = [row for row in record.rows if row[0] == "pycode, here"]
    assert [row[1] for row in trained] == ["original", "lean", "shallow"]
    assert any(words.startswith("pycode: ") for words in record.words)


def test_one_head_of_full_rank_finds_the_farthest_point(tmp_path: Path) -> None:
    record = construction(dim=8, points=(3, 40), sharpness=(1.0, 1e5), samples=20)
    blunt, sharp = [[r.error for r in record.rows if r.sharpness == s] for s in (1.0, 1e5)]
    assert max(sharp) < 0.01 < min(blunt)
    assert all(row.found > 0.99 for row in record.rows if row.sharpness == 1e5)
    record.write(tmp_path / "c.json")
    assert Construction.read(tmp_path / "c.json").rows == record.rows
    with pytest.raises(ValueError, match=r"points must be numbers of at least 2, got \[1\]"):
        construction(points=(1,))
    with pytest.raises(ValueError, match="dim must be at least 2, got 1"):
        construction(dim=1)


def test_parts_of_a_layer() -> None:
    found = parts("nystromformer-image", batch=1)
    assert len(found.layers) == 2
    assert found.heads * found.head_dim == 64
    assert all(len(layer.mlp) == 2 and layer.block > 1 and layer.head > 1 for layer in found.layers)
    with pytest.raises(ValueError, match="batch must be at least 1, got 0"):
        parts(batch=0)
