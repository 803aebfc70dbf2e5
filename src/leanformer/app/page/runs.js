// One run, or two beside each other: what it is, its scores, its loss and κ along training.

import { drawn, h, name, problem, replace, section, shortened, table } from "./dom.js";
import { duration, number, parameters, significant, whole } from "./formats.js";
import { layersPlot } from "./measure.js";
import { lines } from "./plots.js";
import { ask } from "./sources.js";

const STATES = { running: "trains now", queued: "waits", stopped: "stopped", failed: "failed", done: "done" };
const SECONDS = 2000;

export function stateBadge(state) {
  return h("span", { class: `state ${state}` }, STATES[state] ?? state);
}

function progress(run) {
  const left = run.seconds_left === null ? "" : `, ${duration(run.seconds_left)} left`;
  return h("p", null, stateBadge(run.state), ` step ${whole(run.step)} of ${whole(run.steps)}${left} `, h("progress", { max: Math.max(1, run.steps), value: run.step, "aria-label": "Steps" }));
}

function facts(run) {
  const rows = [
    ["architecture", run.architecture],
    ["parameters", run.params === null ? null : parameters(run.params)],
    ["data", run.source],
    ["where", run.where],
    ["why it failed", run.reason],
    ...Object.entries(run.final ?? {}).map(([key, value]) => [`final ${key}`, significant(value)]),
    ...Object.entries(run.baselines ?? {}).map(([key, value]) => [`trivial: ${key}`, significant(value)]),
  ];
  return h("dl", null, rows.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([word, value]) => [h("dt", null, shortened(word, 60)), h("dd", null, h("bdi", null, shortened(value, 600)))]));
}

/** Curves of one or more runs, one plot for each score. */
function curves(runs) {
  const scores = [...new Set(runs.flatMap((run) => run.evaluations.flatMap((point) => Object.keys(point.scores))))];
  const title = (run) => (runs.length > 1 ? run.place : run.name);
  const plot = (label, points, log) => {
    const series = runs.map((run, colour) => ({ name: title(run), colour, dots: label !== "training loss", points: points(run) }));
    if (!series.some((one) => one.points.length)) return null;
    return h("div", null, h("h3", null, shortened(label, 60)), drawn((width) => lines({ width, height: 240, label, x: { label: "step" }, y: { label, log }, series })));
  };
  return h(
    "div",
    { class: "two" },
    scores.slice(0, 8).map((score) => plot(score, (run) => run.evaluations.filter((point) => score in point.scores).map((point) => ({ x: point.step, y: number(point.scores[score]) })), false)),
    plot("training loss", (run) => run.losses.map(([x, y]) => ({ x, y: number(y) })), false),
    plot("κ, median over layers", (run) => run.evaluations.filter((point) => point.kappa !== null).map((point) => ({ x: point.step, y: number(point.kappa) })), true),
  );
}

function layersAtEnd(runs) {
  const series = runs
    .map((run) => [run, run.evaluations.findLast?.((point) => point.layers)])
    .filter(([, last]) => last)
    .map(([run, last]) => ({ name: `${runs.length > 1 ? run.place : run.name}, step ${last.step}`, points: last.layers.map(([low, y, high], place) => ({ x: place + 1, y: number(y), low: number(low), high: number(high) })) }));
  return series.length ? section("κ by layer, last evaluation", layersPlot(series)) : null;
}

function settings(run) {
  return h("details", null, h("summary", null, "Settings"), h("pre", { tabindex: "0" }, shortened(JSON.stringify(run.settings, null, 2), 20000)));
}

/** Both runs' settings, where they differ. */
function differences(first, second) {
  const flat = (value, prefix = "") =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? Object.entries(value).flatMap(([key, inner]) => flat(inner, prefix ? `${prefix}.${key}` : key))
      : [[prefix, JSON.stringify(value)]];
  const [a, b] = [first, second].map((run) => new Map(flat({ ...run.settings, architecture: run.architecture, seed: run.seed, parameters: run.params, final: run.final })));
  const rows = [...new Set([...a.keys(), ...b.keys()])].filter((key) => a.get(key) !== b.get(key)).map((key) => [key, a.get(key) ?? "–", b.get(key) ?? "–"]);
  return rows.length ? table(["", first.place, second.place], rows, { left: 3, caption: "What differs" }) : h("p", null, "Nothing differs.");
}

/** One run, or two. Looks again while one of them trains. */
export async function runsView(place, places) {
  const show = async () => {
    let runs;
    try {
      runs = await Promise.all(places.map((where) => ask("/api/run", { place: where })));
    } catch (error) {
      replace(place, problem(error));
      return;
    }
    const [first, second] = runs;
    replace(
      place,
      second
        ? section("Two runs", h("p", null, runs.map((run, index) => h("span", { class: "key-and-name", colour: index }, h("span", { class: "key", "aria-hidden": "true" }), name(run.place)))), differences(first, second), curves(runs))
        : section(`${shortened(first.name, 100)}, seed ${first.seed ?? "–"}`, progress(first), facts(first), curves(runs), settings(first)),
      layersAtEnd(runs),
    );
    if (runs.some((run) => run.state === "running" || run.state === "queued")) setTimeout(() => place.isConnected && show(), SECONDS);
  };
  await show();
}
