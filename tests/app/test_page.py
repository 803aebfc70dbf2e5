"""The explorer's page in Chromium: its arithmetic, its views, its manners. One browser serves all tests."""

import json
import random
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import leanformer as lf
from leanformer.app.designs import coefficients, described
from leanformer.app.server import Explorer
from leanformer.architecture import REGIMES, Architecture, Stage
from leanformer.conditioning.measurement import Measurement
from leanformer.costs.cache import cached_values
from leanformer.costs.closed_forms import Count, Formula, Polynomial, formula
from leanformer.costs.setting import STATE_BYTES, Setting
from leanformer.designing.candidates import evaluate
from leanformer.designing.emit import emit
from leanformer.experiments.plan import read_plan, write_plan
from leanformer.foundation.records.files import locked
from leanformer.models import families
from leanformer.models.published import LANGUAGE
from leanformer.paper.drawn import PaperFigure
from leanformer.paper.scorecard import paper, scorecard
from leanformer.training.loop import train
from support import browser as support_browser
from support import formulas, tiny_run
from support.amount import some
from support.architectures import SMALL

MODEL, OTHER = "farthest-point", "tinystories-gpt2"
"""Models that are counted in half a second each."""
RESULTS = Path(__file__).parents[2] / "results"
expect.set_options(timeout=30_000)
SLOW = 10
"""How many times slower than a free machine the one that runs the tests may be."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with support_browser.chromium() as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished comparison, a saved model, a measurement and a scorecard."""
    root = tmp_path_factory.mktemp("shown")
    recipe = tiny_run.recipe(arms=("original", "lean"))
    lf.compare(recipe, seeds=2, jobs=1, out=root / "study", report=False, progress=False)
    scorecard(LANGUAGE[:2], memory=False).write(root / "scorecard.json")
    return root


@pytest.fixture(scope="module")
def explorer(folder: Path) -> Iterator[Explorer]:
    with Explorer(folder, 0, first=MODEL) as found:
        yield found


def opened(browser: Browser, explorer: Explorer, view: str, **context: Any) -> support_browser.Watched:
    watched = support_browser.Watched(browser, explorer.url, **context)
    watched.page.goto(f"{explorer.url}#{view}")
    return watched


# The arithmetic


def random_design(draw: random.Random, base: Architecture, model: dict[str, Any]) -> tuple[Architecture, str]:
    """Any sizes in the regime `fixed`; in `split`, heads that divide the width."""
    regime = draw.choice(list(REGIMES.values()))
    stages = []
    for stage in base.stages:
        step, even = model["steps"]["head_dim"], model["steps"]["mlp_dim"]
        sizes = dict(depth=draw.randint(1, 48), mlp_dim=even * draw.randint(1, 9000))
        if regime == "split":
            unit = model["unit"]
            fits = [h for h in range(1, stage.width + 1) if stage.width % h == h % unit == stage.width // h % step == 0]
            heads = draw.choice(fits)
            sizes |= dict(heads=heads, head_dim=stage.width // heads)
        else:
            sizes |= dict(heads=model["unit"] * draw.randint(1, 80), head_dim=step * draw.randint(1, 300))
        stages.append(Stage(width=stage.width, **sizes))
    if base.family == "modernbert":
        stages = stages[:1]
    return replace(base, stages=tuple(stages)), regime


def synthetic(draw: random.Random, real: Formula) -> Formula:
    """The same formula with fractions: coefficients that no model has."""

    def count(like: Count) -> Count:
        def polynomial() -> Polynomial:
            one, h, d, hd, hdd, constant, slope, other = (draw.randint(-50, 10**6) for _ in range(8))
            return Polynomial((one, h, d, hd, hdd), (constant, slope), other)

        stages = tuple(polynomial() for _ in like.stages)
        return Count(6, stages, polynomial(), draw.randint(0, 10**9), draw.randint(0, 10**6))

    return replace(
        real,
        params=count(real.params),
        forward_macs=(count(real.params), count(real.params)),
        saved=(count(real.params), count(real.params)),
        transient=(draw.randint(0, 10**9), draw.randint(0, 10**9)),
    )


def expected(base: Architecture, design: Architecture, regime: Any, closed: Formula, setting: Setting) -> dict:
    found = evaluate(base, design, regime, closed, setting)
    params = asdict(found.cost.params)
    return {
        "params": [str(params[part]) for part in ("attention", "mlp", "layers_other", "embedding", "head")],
        "total": str(found.cost.params.total),
        "macs": str(found.cost.forward_macs),
        "saved": str(found.cost.saved_bytes),
        "memory": str(found.cost.memory_bytes),
        "guards": [[guard.name, guard.level, guard.figure, guard.remedy] for guard in found.guards],
        "kappa": found.gaussian,
        "cache": cached_values(design),
    }


COMPUTE = """(asked) => asked.map(({model, formula, sizes, regime, setting}) => {
  const {cachedValues, evaluated, readFormula, emitted} = globalThis.leanformer;
  const found = evaluated(model, readFormula(formula, BigInt), sizes, regime, setting);
  const {params, macs, saved, memory} = found.cost;
  return {
    params: ["attention", "mlp", "other", "embedding", "head"].map((part) => String(params[part])),
    total: String(params.total), macs: String(macs), saved: String(saved), memory: String(memory),
    guards: found.guards.map((guard) => [guard.name, guard.level, guard.figure, guard.remedy]), kappa: found.kappa,
    cache: model.caches ? cachedValues(sizes, model.unit) : 0,
    texts: Object.fromEntries(
      model.forms.filter((form) => form !== "hf").map((form) => [form, emitted(model, sizes, form)])),
  };
})"""


def test_the_page_computes_what_leanformer_computes(browser: Browser, explorer: Explorer) -> None:
    """200 random designs and settings over all families: costs to the last digit, guards and code to the letter."""
    draw, page = random.Random(0), opened(browser, explorer, "paper").page
    asked, wanted, texts = [], [], []
    names = sorted(SMALL)
    stored = formulas.stored()
    assert {SMALL[name].family for name in stored} == set(families.FAMILIES.names())
    models = {name: described(SMALL[name], name) | {"candidates": []} for name in names}
    for index in range(200):
        name = names[index % len(names)]
        base, model, closed = SMALL[name], models[name], formulas.read(name, stored[name])
        if index % 5 == 4:
            closed = synthetic(draw, closed)
        design, regime = random_design(draw, base, model)
        setting = Setting(batch=draw.choice([1, 7, 64, draw.randint(1, 5000)]), optimizer=draw.choice([*STATE_BYTES]))
        sizes = [[stage.depth, stage.heads, stage.head_dim, stage.mlp_dim] for stage in design.stages]
        plain = coefficients(closed)
        given = {"batch": setting.batch, "optimizer": setting.optimizer}
        asked.append({"model": model, "formula": plain, "sizes": sizes, "regime": regime, "setting": given})
        wanted.append(expected(base, design, regime, closed, setting))
        texts.append({form: emit(design, form) for form in model["forms"] if form != "hf"})
    page.wait_for_selector("main h1")
    found = page.evaluate(COMPUTE, asked)
    for ours, theirs, text in zip(wanted, found, texts, strict=True):
        assert theirs.pop("kappa") == pytest.approx(ours.pop("kappa"), rel=1e-12)
        assert theirs.pop("texts") == text
        assert theirs == ours


@pytest.mark.parametrize("name", some(sorted(SMALL), 1, seed=3))
def test_the_stored_formulas_are_what_is_counted(name: str) -> None:
    assert formulas.stored()[name] == formulas.counted(name)


PLAN = """({model, formula, setting}) => {
  const {evaluated, planned, readFormula, usualLimit} = globalThis.leanformer;
  const numbers = readFormula(formula, Number);
  const sizes = model.stages.map((stage) => [stage.depth, stage.heads, stage.head_dim, stage.mlp_dim]);
  const original = evaluated(model, numbers, sizes, "fixed", setting);
  const {found, front, first} = planned(model, numbers, setting, usualLimit(original));
  const told = (one) => [one.sizes, one.regime, one.cost.params.total, one.cost.memory, one.cost.macs];
  return {found: found.length, front: front.map(told), first: told(first)};
}"""


def test_the_front_is_that_of_design(browser: Browser, explorer: Explorer) -> None:
    """The candidates, the front and the recommendation of `leanformer design --json`."""
    base = SMALL["vit"].resized(depth=12, heads=4, head_dim=12)
    record = json.loads(json.dumps(lf.design(base, batch=32).record().to_dict()))
    closed = coefficients(formula(base))
    page = opened(browser, explorer, "paper").page
    page.wait_for_selector("main h1")
    given = {"model": described(base, "vit"), "formula": closed, "setting": {"batch": 32, "optimizer": "adamw"}}
    found = page.evaluate(PLAN, given)

    def told(row: dict[str, Any]) -> list[Any]:
        words = ("depth", "heads", "head_dim", "mlp_dim")
        sizes = [[stage[word] for word in words] for stage in row["architecture"]["stages"]]
        return [sizes, row["regime"], row["params"], row["memory_bytes"], row["forward_macs"]]

    assert found["found"] == record["considered"]
    assert found["first"] == told(record["recommended"])
    assert sorted(found["front"]) == sorted(map(told, record["front"]))


# The views

MOVE = """async () => {
  const slider = document.getElementById("size-heads");
  const times = [];
  for (let turn = 0; turn < 12; turn += 1) {
    const began = performance.now();
    slider.value = String(turn % 2 ? 1 : 3);
    slider.dispatchEvent(new Event("input", {bubbles: true}));
    document.getElementById("figures").getBoundingClientRect();
    times.push(performance.now() - began);
    await new Promise((done) => requestAnimationFrame(done));
  }
  return times.sort((a, b) => a - b);
}"""


def figure(page: Page, name: str) -> str:
    return page.locator(f"#figure-{name} .now").inner_text()


def test_a_design_is_made_with_the_mouse(browser: Browser, explorer: Explorer) -> None:
    watched = opened(browser, explorer, "design", viewport={"width": 1300, "height": 900})
    page = watched.page
    expect(page.locator("#figure-params .now")).to_be_visible()
    before = figure(page, "params")
    page.locator("#field-depth").fill("3")
    page.locator("#field-depth").press("Tab")
    page.locator("#field-heads").fill("9")
    page.locator("#field-heads").press("Tab")
    assert figure(page, "params") != before
    mlp_dim = int(page.locator("#field-mlp_dim").input_value())
    base = lf.architecture_of(MODEL).resized(depth=3, heads=9, mlp_dim=mlp_dim)
    assert page.locator("#parts-params tr.bold td").nth(1).inner_text() == f"{_params(base):,}"
    expect(page.locator("pre")).to_contain_text("depth=3, heads=9")
    link = page.evaluate("location.href")
    moves = page.evaluate(MOVE)
    print(f"a move takes {moves[0]:.1f} ms, {moves[6]:.1f} ms in the median")
    assert moves[0] < 50, "of several moves, the one that other processes disturbed least"
    assert moves[6] < 50 * SLOW
    # another model, by its name; then a point of the front
    page.locator("#model").fill(OTHER)
    expect(page.locator("#figure-cache .now")).to_be_visible()
    page.evaluate("document.getElementById('design').removeAttribute('data-shown')")
    page.get_by_role("button", name="Original", exact=True).click()
    expect(page.locator("#design")).to_have_attribute("data-shown", re.compile("."))  # the front is drawn again
    page.locator("#front circle.first").click(force=True)
    expect(page.locator("#design")).to_have_attribute("data-shown", first_row(page))
    page.get_by_role("button", name="YAML").click()
    expect(page.locator("pre")).to_contain_text("family: story-gpt")
    page.get_by_role("button", name="Hugging Face").click()
    expect(page.locator("pre")).to_contain_text('"model_type"')
    page.locator("#precision").select_option("bfloat16")
    expect(page.locator("#counting")).to_be_empty()
    # the link opens what was seen
    page.goto(link)
    page.reload()
    expect(page.locator("#field-depth")).to_have_value("3")
    expect(page.locator("#field-heads")).to_have_value("9")
    assert watched.violations() == []
    assert watched.wrong == []


def first_row(page: Page) -> Any:
    """What the first row of the front says, which the click has made the design."""
    cells = page.locator("#front ~ div tbody tr").first.locator("td").all_inner_texts()
    return f"{cells[1]} layer{'' if cells[1] == '1' else 's'}, {cells[2]} heads of {cells[3]}, MLP {cells[4]}"


def _params(design: Architecture) -> int:
    return sum(parameter.numel() for parameter in lf.build(design, device="meta").parameters())


def test_dark_narrow_and_by_keyboard_alone(browser: Browser, explorer: Explorer) -> None:
    watched = opened(
        browser, explorer, "design", viewport={"width": 390, "height": 800}, color_scheme="dark", has_touch=True
    )
    page = watched.page
    expect(page.locator("#figure-params .now")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 21, 27)"
    assert watched.violations() == []

    def tab_to(chosen: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("(chosen) => document.activeElement.matches(chosen)", chosen):
                return
        raise AssertionError(f"the keyboard does not reach {chosen}")

    tab_to("#size-depth")
    depth = page.locator("#field-depth").input_value()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#field-depth")).to_have_value(str(int(depth) + 1))
    tab_to("tbody button")
    page.keyboard.press("Enter")
    expect(page.locator("#field-depth")).to_have_value(depth)
    page.keyboard.press("Home")
    page.locator("body").press("Shift+Tab")
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    tab_to('a[href="#studies"]')
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Studies")).to_be_visible()
    expect(page.locator("#study table").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert watched.violations() == []
    assert watched.wrong == []


def test_a_study_is_watched_while_it_trains(browser: Browser, folder: Path, explorer: Explorer) -> None:
    live = folder / "live"
    shutil.copytree(folder / "study", live)
    (live / "comparison.json").unlink(missing_ok=True)
    plan = read_plan(live)
    for arm, seed in plan.runs():
        shutil.rmtree(live / arm / f"seed-{seed}")
    write_plan(plan, tiny_run.TASK, live)
    watched = opened(browser, explorer, "studies?open=live", viewport={"width": 1300, "height": 900})
    page = watched.page
    expect(page.locator("#study")).to_contain_text("No run has finished yet.")
    with locked(live / "lean" / "seed-0"):
        row = page.locator("#study tr", has_text="lean/seed-0")
        expect(row).to_contain_text("trains now")
    for arm, seed in plan.runs():
        train(live / arm / f"seed-{seed}")
    expect(page.locator("#study")).to_contain_text("4 done", timeout=30_000)
    expect(page.locator("#study .verdict .outcome")).to_be_visible()
    expect(page.locator("#study .verdict")).not_to_contain_text("under way")
    # two runs beside each other, then one
    page.get_by_label("choose lean/seed-0").check()
    page.get_by_label("choose original/seed-0").check()
    page.get_by_role("button", name="Compare two").click()
    expect(page.get_by_role("heading", name="Two runs")).to_be_visible()
    expect(page.locator("svg path.line").first).to_be_visible()
    page.get_by_role("link", name="← the study").click()
    page.get_by_role("link", name="lean/seed-0", exact=True).click()
    expect(page.get_by_role("heading", name="lean, seed 0")).to_be_visible()
    expect(page.get_by_text("final accuracy")).to_be_visible()
    assert watched.violations() == []
    # κ along training, and the scorecard
    page.goto(f"{explorer.url}#measure?study=study")
    expect(page.get_by_role("heading", name="κ along training")).to_be_visible()
    assert watched.violations() == []
    # κ of a trained model, measured now
    page.get_by_role("link", name="study/lean/seed-0").click()
    expect(page.get_by_role("table", name="κ by layer").locator("tbody tr")).to_have_count(1)
    assert watched.violations() == []
    page.goto(f"{explorer.url}#paper")
    expect(page.get_by_role("region", name="Scorecard").locator("tbody tr")).to_have_count(2)
    assert watched.violations() == []
    assert watched.wrong == []


def test_claims_are_counted_found_and_opened(browser: Browser, tmp_path: Path) -> None:
    """Without a scorecard in the folder, those that come with the package are shown; figures are the folder's."""
    shown = paper()
    figure = PaperFigure.read(RESULTS / "paper" / "figure-6" / "figure.json")
    figure.changed(title=SCRIPT).write(tmp_path / "figure.json")
    with Explorer(tmp_path, 0, first=MODEL) as explorer:
        watched = opened(browser, explorer, "paper")
        page = watched.page
        expect(page.locator("details.claim")).to_have_count(len(shown.claims))
        holding = [claim for claim in shown.claims if claim.status == "holds"]
        page.get_by_role("group", name="Show claims of a status").get_by_role("button", name="holds").first.click()
        expect(page.locator("details.claim")).to_have_count(len(holding))
        expect(page.get_by_text(f"{len(holding)} of {len(shown.claims)} claims")).to_be_visible()
        page.get_by_label("Search the claims").fill(holding[0].statement)
        expect(page.locator("details.claim")).to_have_count(1)
        page.locator("details.claim summary").focus()
        page.keyboard.press("Enter")
        for words in (holding[0].rule, holding[0].result, holding[0].test):
            expect(page.locator(".claim-body").get_by_text(words, exact=True)).to_be_visible()
        page.get_by_label("Search the claims").fill("no claim says this")
        expect(page.locator("details.claim")).to_have_count(0)
        expect(page.get_by_role("heading", name=f"Figure 6: {SCRIPT}")).to_be_visible()
        assert watched.violations() == []
        assert watched.wrong == []


# Names that mean harm, and many runs

SCRIPT = "<script>hacked=1</script>"
IMAGE = "<img src=x onerror=hacked=1>"
REVERSED = "\u202eevil\u202c مرحبا"
HOSTILE = (SCRIPT, IMAGE, REVERSED, "x..%2f..%2fetc", "&lt;b&gt;", "'\"`${1}")


def measured(model: str) -> Measurement:
    """A measurement with a name of its own."""
    return lf.measure(SMALL["vit"], 2, random=True, progress=False).changed(model=model)


def test_hostile_names_are_text(browser: Browser, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    measured("secret").write(outside / "kappa_by_layer.json")
    root = tmp_path / "root"
    arms = {"original": [1.0, 2.0, 3.0], IMAGE: [1.5, 2.5, 3.5]}
    record = lf.judge(arms, margin=0.5, against="original")
    for number, name in enumerate(HOSTILE):
        home = root / name.replace("/", "∕")
        home.mkdir(parents=True)
        record.changed(name=name * (2000 if number == 0 else 1), source=name).write(home / "comparison.json")
    measured("x" * 10_000).write(root / "long.json")
    measured(SCRIPT).write(root / "script.json")
    (root / "link").symlink_to(outside)
    (root / "link.json").symlink_to(outside / "kappa_by_layer.json")
    with Explorer(root, 0, first=MODEL) as explorer:
        watched = opened(browser, explorer, "studies", viewport={"width": 1100, "height": 800})
        page = watched.page
        expect(page.locator("nav.list li")).to_have_count(len(HOSTILE))
        for name in HOSTILE:
            page.get_by_role("link", name=name.replace("/", "∕")).first.click()
            expect(page.locator("#study")).to_contain_text(IMAGE)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1100
        page.goto(f"{explorer.url}#measure")
        expect(page.locator("nav.list li")).to_have_count(2 + len(HOSTILE))
        assert "secret" not in page.locator("body").inner_text()
        page.get_by_role("link", name=SCRIPT).click()
        expect(page.get_by_role("heading", name=SCRIPT)).to_be_visible()
        for place in ("../outside/kappa_by_layer.json", "link/kappa_by_layer.json", "link.json", "/etc/passwd"):
            page.goto(f"{explorer.url}#measure?open={place}")
            expect(page.locator(".problem")).to_have_text("there is nothing of that name in this folder")
        assert page.evaluate("typeof hacked") == "undefined"
        assert page.locator("img, main script").count() == 0
        refused = "Failed to load resource: the server responded with a status of 400 (Bad Request)"
        assert set(watched.wrong) <= {refused}


def test_two_hundred_runs_load_quickly(browser: Browser, folder: Path, tmp_path: Path) -> None:
    source = folder / "study"
    for number in range(50):
        shutil.copytree(source, tmp_path / f"study-{number}", ignore=shutil.ignore_patterns("model", "checkpoints"))
    with Explorer(tmp_path, 0, first=MODEL) as explorer:
        watched = opened(browser, explorer, "design")
        expect(watched.page.locator("#figure-params .now")).to_be_visible()  # the server has imported what it needs
        watched.page.goto("about:blank")
        began = time.perf_counter()
        watched.page.goto(f"{explorer.url}#studies")
        expect(watched.page.locator("nav.list li")).to_have_count(50)
        expect(watched.page.locator("#study table").first).to_be_visible()
        seconds = time.perf_counter() - began
        print(f"200 runs load in {seconds:.2f} s")
        assert seconds < 2 * SLOW
        assert watched.wrong == []
