// The studies view: comparisons and sweeps of the folder, also while they train; their runs, one or two at a time.

import { announce, drawn, h, name, problem, replace, section, shortened, table } from "./dom.js";
import { counted, decimals, number, signed, whole } from "./formats.js";
import { intervals, lines } from "./plots.js";
import { runsView, stateBadge } from "./runs.js";
import { ask } from "./sources.js";

const SECONDS = 2000;
const OUTCOMES = { holds: "holds", loses: "loses", "cannot tell": "cannot tell" };
const COLOURS = { holds: 2, loses: 1, "cannot tell": 4 };
const MOST_LISTED = 300;

const address = (asked) => `#studies?${new URLSearchParams(asked)}`;

function outcomeBadge(outcome) {
  return outcome in OUTCOMES ? h("span", { class: `outcome ${outcome.replaceAll(" ", "-")}` }, OUTCOMES[outcome]) : null;
}

/** Runs belong to the study whose folder is nearest. */
function grouped(found) {
  const studies = new Map(found.studies.map((study) => [study.place, { ...study, runs: [] }]));
  const single = [];
  for (const run of found.runs) {
    const parts = run.place.split("/");
    let home = null;
    for (let count = parts.length - 1; count >= 0 && home === null; count -= 1) home = studies.get(parts.slice(0, count).join("/")) ?? null;
    if (home) home.runs.push(run);
    else single.push(run);
  }
  return { studies: Array.from(studies.values()), single };
}

function states(runs) {
  const counts = new Map();
  for (const run of runs) counts.set(run.state, (counts.get(run.state) ?? 0) + 1);
  return Array.from(counts, ([state, count]) => `${whole(count)} ${state}`).join(", ");
}

function list(found, open, wanted) {
  const { studies, single } = grouped(found);
  const inner = (study) => studies.some((other) => other !== study && (other.place === "" ? study.place !== "" : study.place.startsWith(`${other.place}/`)));
  return h(
    "nav",
    { class: "list card", "aria-label": "Studies" },
    h("h2", null, counted(studies.length, "study").replace("studys", "studies")),
    h(
      "ul",
      null,
      studies.slice(0, MOST_LISTED).map((study) =>
        h(
          "li",
          { class: inner(study) ? "inner" : null },
          h("a", { href: address({ open: study.place }), "aria-current": open === study.place ? "true" : null }, name(study.place || study.name)),
          h("span", { class: "quiet-text" }, outcomeBadge(study.outcome), study.problem ? h("bdi", null, shortened(study.problem, 120)) : [study.kind, study.runs.length ? ` · ${states(study.runs)}` : ""]),
        ),
      ),
    ),
    single.length
      ? [
          h("h2", null, counted(single.length, "single run")),
          h("ul", null, single.slice(0, MOST_LISTED).map((run) => h("li", null, h("a", { href: address({ run: run.place }), "aria-current": wanted.includes(run.place) ? "true" : null }, name(run.place || run.name)), h("span", { class: "quiet-text" }, run.state)))),
        ]
      : null,
    found.truncated ? h("p", { class: "quiet-text" }, "There is more in this folder than is listed.") : null,
  );
}

function differencesPlot(study) {
  const rows = study.differences.filter((row) => row.mean !== null);
  if (!rows.length) return null;
  const places = decimals(rows[0].unit);
  const worded = rows.map((row) => ({
    ...row,
    low: row.low ?? null,
    colour: COLOURS[row.outcome] ?? 0,
    words: `${row.title}: ${signed(row.mean, places)} [${signed(row.low, places)}, ${signed(row.high, places)}], ${row.seeds} seeds`,
    title: `${row.title}: ${signed(row.mean, places)}${row.low === null ? "" : ` [${signed(row.low, places)}, ${signed(row.high, places)}]`}`,
  }));
  const unit = `difference${rows[0].unit ? `, ${rows[0].unit === "%" ? "points" : rows[0].unit}` : ""} (more is better)${rows.some((row) => row.margin) ? "; the margin is shaded" : ""}`;
  return section("Differences", drawn((width) => intervals({ width, rows: worded, unit, label: worded.map((row) => row.words).join("; ") })));
}

function curvesPlot(study) {
  const score = study.metric?.name ?? null;
  const arms = Object.entries(study.curves ?? {});
  const wanted = (point) => point.scores[score ?? Object.keys(point.scores)[0]];
  const series = arms.flatMap(([arm, seeds], colour) =>
    Object.entries(seeds).map(([seed, run]) => ({ name: arm, colour, thin: true, dots: run.evaluations.length < 3, points: run.evaluations.map((point) => ({ x: point.step, y: number(wanted(point) ?? null), words: `${arm}, seed ${seed}, step ${point.step}: ${wanted(point)}` })).filter((point) => point.y !== null) })),
  );
  if (!series.some((one) => one.points.length)) return null;
  const title = score ?? "score";
  return section("Learning curves", drawn((width) => lines({ width, label: `${title} along training, a line per run`, x: { label: "step" }, y: { label: title }, series })));
}

function sweepPlot(study) {
  const axis = study.varied?.find((word) => study.axes[word].every((value) => typeof value === "number")) ?? null;
  const cells = (study.cells ?? []).filter((cell) => cell.mean !== null);
  if (axis === null || cells.length < 2) return null;
  const others = study.varied.filter((word) => word !== axis);
  const groups = new Map();
  for (const cell of cells) {
    const title = others.map((word) => `${word} ${cell.values[word]}`).join(", ");
    groups.set(title, [...(groups.get(title) ?? []), cell]);
  }
  const series = Array.from(groups, ([title, here], place) => ({ name: title || study.metric?.name || "score", colour: place % 8, dots: true, whiskers: true, points: here.map((cell) => ({ x: cell.values[axis], y: cell.mean, low: cell.low, high: cell.high, words: `${cell.title}: ${cell.mean}` })).sort((a, b) => a.x - b.x) }));
  const values = study.axes[axis];
  const log = values.every((value) => value > 0) && Math.max(...values) >= 8 * Math.min(...values);
  return section("Cells", drawn((width) => lines({ width, label: `Scores against ${axis}`, x: { label: axis, log, ticks: values.length < 9 ? values : undefined, text: String }, y: { label: study.metric?.name ?? "score" }, series })));
}

function runTable(study, picked) {
  if (!study.runs.length) return null;
  const chosen = new Set(picked);
  const inside = (run) => (run.place === "." ? study.place : [study.place, run.place].filter(Boolean).join("/"));
  const compare = h("button", { type: "button", disabled: chosen.size !== 2, onclick: () => (location.hash = `#studies?${new URLSearchParams([["open", study.place], ...Array.from(chosen, (where) => ["run", where])])}`) }, "Compare two");
  const box = (run) =>
    h("input", {
      type: "checkbox",
      checked: chosen.has(inside(run)),
      "aria-label": `choose ${shortened(run.place, 100)}`,
      onchange: (event) => {
        if (event.target.checked) chosen.add(inside(run));
        else chosen.delete(inside(run));
        compare.disabled = chosen.size !== 2;
      },
    });
  const scores = study.scores ?? {};
  const shown = study.runs.slice(0, MOST_LISTED);
  const rows = shown.map((run) => [
    box(run),
    h("a", { href: address({ open: study.place, run: inside(run) }) }, name(run.place)),
    h("span", null, stateBadge(run.state), run.reason ? h("span", { class: "quiet-text" }, ` ${shortened(run.reason, 160)}`) : null),
    run.steps > 1 ? h("progress", { max: run.steps, value: run.step, "aria-label": `steps of ${shortened(run.place, 80)}` }) : "",
    scores[run.name]?.[String(run.seed)] === undefined || study.runs.length > Object.values(scores).flatMap(Object.values).length * 3 ? "" : String(Number(scores[run.name][String(run.seed)].toPrecision(5))),
  ]);
  return section("Runs", h("p", { class: "quiet-text" }, study.states.map((words) => shortened(words, 300)).join(". ")), table(["", "run", "state", "steps", "score"], rows, { left: 4, caption: "Runs of the study" }), h("div", { class: "buttons" }, compare), shown.length < study.runs.length ? h("p", { class: "quiet-text" }, `${MOST_LISTED} of ${study.runs.length} are listed.`) : null);
}

function studyBody(study, picked) {
  return [
    section(
      shortened(study.name, 120),
      h("p", { class: "verdict" }, outcomeBadge(study.outcome), study.over ? null : h("span", { class: "state running" }, "under way")),
      h("ul", { class: "said" }, (study.sentences ?? []).map((words) => h("li", null, h("bdi", null, shortened(words, 2000))))),
      study.table ? table(study.table.head, study.table.rows, { caption: "Arms", bold: "lean" }) : null,
      study.source ? h("p", { class: "quiet-text" }, "Data: ", h("bdi", null, shortened(study.source, 300))) : null,
      study.command ? h("p", { class: "quiet-text" }, "Made by ", h("code", null, shortened(study.command, 500))) : null,
    ),
    differencesPlot(study),
    curvesPlot(study),
    sweepPlot(study),
    runTable(study, picked),
  ];
}

/** One study; looked at again while it trains. Boxes that are ticked stay so. */
async function openStudy(place, where) {
  let last = "";
  const show = async () => {
    let study;
    try {
      study = await ask("/api/study", { place: where });
    } catch (error) {
      replace(place, problem(error));
      return;
    }
    const now = JSON.stringify(study);
    if (now !== last) {
      const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      const picked = Array.from(place.querySelectorAll("input:checked"), (box) => box.closest("tr").querySelector("a").hash).map((hash) => new URLSearchParams(hash.split("?")[1]).get("run"));
      replace(place, studyBody(study, picked));
      if (focused) Array.from(place.querySelectorAll("a")).find((link) => link.getAttribute("href") === focused)?.focus();
      if (last) announce(`${shortened(study.name, 60)}: ${study.states[0] ?? "changed"}`);
      last = now;
    }
    if (!study.over) setTimeout(() => place.isConnected && show(), SECONDS);
  };
  await show();
}

/** The view: the list, and what is open. */
export async function studiesView(place, asked, found) {
  const open = asked.get("open");
  const wanted = asked.getAll("run").slice(0, 2);
  if (!found.studies.length && !found.runs.length) {
    replace(place, h("h1", null, "Studies"), h("p", { class: "empty" }, "There is no study in this folder yet: ", h("code", null, "leanformer compare"), " makes one, and it is shown here while it trains."));
    return;
  }
  const body = h("div", { class: "stack", id: "study" }, h("p", { class: found.studies.length || wanted.length ? "waiting" : "empty" }, found.studies.length ? "Reading the study…" : "Choose a run."));
  const back = wanted.length && open !== null ? h("p", null, h("a", { href: address({ open }) }, "← the study")) : null;
  const runs = h("div", { class: "stack" }, h("p", { class: "waiting" }, "Reading…"));
  replace(place, h("h1", null, "Studies"), h("div", { class: "columns" }, list(found, open, wanted), h("div", { class: "stack" }, back, wanted.length ? runs : body)));
  if (wanted.length) await runsView(runs, wanted);
  else if (open !== null) await openStudy(body, open);
  else if (found.studies.length) await openStudy(body, found.studies[0].place);
}
