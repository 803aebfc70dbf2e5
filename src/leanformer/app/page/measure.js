// The measure view: κ by layer of measured models and of runs, along training, and by the number of heads.

import { drawn, h, name, problem, replace, section, shortened, table } from "./dom.js";
import { number, significant, whole } from "./formats.js";
import { lines } from "./plots.js";
import { ask } from "./sources.js";

const KINDS = { measurement: "κ by layer", heads: "κ by heads", ranks: "Ranks of heads", theory: "Theory", design: "Designs", inheritance: "Lean models of trained ones" };
const MOST = 6;
const MOST_MODELS = 200;

const pointOf = (x, [low, y, high], words) => ({ x, y: number(y), low: number(low), high: number(high), words });

/** κ by layer of several models or runs: median and quartiles over samples. */
export function layersPlot(series, label = "κ by layer") {
  const most = Math.max(...series.map((one) => one.points.length));
  return drawn((width) =>
    lines({
      width,
      label,
      x: { label: "layer", ticks: Array.from({ length: most }, (_, place) => place + 1).filter((place) => most < 14 || place % 2 === 1) },
      y: { label: "κ, median and quartiles", log: true },
      series: series.map((one, colour) => ({ colour, band: true, dots: true, ...one })),
    }),
  );
}

function measurementSeries(record, title) {
  const layers = record.layers.map((layer, place) => pointOf(place + 1, [layer.kappa.lower_quartile, layer.kappa.median, layer.kappa.upper_quartile], `layer ${place + 1}: κ ${significant(layer.kappa.median)}, ${layer.columns} columns, ${layer.tokens} tokens`));
  const gaussian = record.layers.map((layer, place) => ({ x: place + 1, y: number(layer.gaussian) }));
  return { name: title, points: layers, gaussian };
}

function measurement({ record, sentences }) {
  const one = measurementSeries(record, record.model);
  const head = ["layer", "kind", "tokens", "columns", "κ median", "lower quartile", "upper quartile", "Gaussian"];
  const rows = record.layers.map((layer, place) => [String(place + 1), String(layer.kind ?? ""), whole(layer.tokens), whole(layer.columns), ...["median", "lower_quartile", "upper_quartile"].map((key) => significant(layer.kappa[key])), significant(layer.gaussian)]);
  return [
    layersPlot([one, { name: "Gaussian block", points: one.gaussian, dashed: true, dots: false, colour: 4 }]),
    said(sentences),
    table(head, rows, { left: 2, caption: "κ by layer" }),
  ];
}

function said(sentences) {
  return sentences.length ? h("ul", { class: "said" }, sentences.map((words) => h("li", null, h("bdi", null, shortened(words, 2000))))) : null;
}

export function headsPlot(record) {
  const regimes = [...new Set(record.rows.map((row) => row.regime))];
  const rows = (regime) => record.rows.filter((row) => row.regime === regime);
  return drawn((width) =>
    lines({
      width,
      label: `κ by heads of ${shortened(record.model, 80)}`,
      x: { label: "heads", log: true, ticks: [...new Set(record.rows.map((row) => row.heads))].filter((count) => Number.isInteger(Math.log2(count)) || record.rows.length < 16), text: String },
      y: { label: "κ at initialisation", log: true },
      series: regimes.flatMap((regime, colour) => [
        { name: regime, colour, band: true, dots: true, points: rows(regime).map((row) => pointOf(row.heads, [row.lowest_layer, row.kappa, row.highest_layer], `${regime}, ${row.heads} heads: κ ${significant(row.kappa)}`)) },
        { name: `${regime}, Gaussian`, colour, dashed: true, points: rows(regime).map((row) => ({ x: row.heads, y: number(row.gaussian) })) },
      ]),
    }),
  );
}

function heads({ record }) {
  const head = ["regime", "heads", "head_dim", "columns", "tokens", "κ", "Gaussian"];
  const rows = record.rows.map((row) => [row.regime, String(row.heads), String(row.head_dim ?? "–"), whole(row.columns), whole(row.tokens), significant(row.kappa), significant(row.gaussian)]);
  return [headsPlot(record), h("p", { class: "quiet-text" }, "The band reaches from the lowest to the highest layer."), table(head, rows, { caption: "κ by heads" })];
}

export function theoryPlot(record) {
  const curve = (key) => record.curve.columns.map((columns, place) => ({ x: columns, y: number(record.curve[key][place]) }));
  return drawn((width) =>
    lines({
      width,
      label: "Theorem 3.2 against exact sampling",
      x: { label: "columns, h·d" },
      y: { label: "κ of a Gaussian block", log: true },
      marks: [{ x: record.tokens, words: `h·d = ${record.tokens} tokens` }],
      series: [
        { name: "Theorem 3.2", colour: 1, dashed: true, points: curve("edge").filter((point) => Number.isFinite(point.y)) },
        { name: "E log κ, closed form", colour: 0, points: curve("expected") },
        { name: "sampled", colour: 2, line: false, dots: true, points: record.rows.map((row) => ({ x: row.columns, y: row.simulated })) },
      ],
    }),
  );
}

function ranks({ record }) {
  const head = ["layer", "heads", "head_dim", "effective rank, median"];
  const middle = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
  const rows = record.layers.map((layer, place) => [String(place + 1), String(layer.effective_rank.length), String(layer.head_dim), significant(middle(layer.effective_rank))]);
  return [table(head, rows, { caption: "Effective rank of W_Q W_Kᵀ by layer" })];
}

/** The recommended design of a record, in the design view, where its model is one of a name. */
function design({ record, sentences }) {
  const { architecture, regime } = record.recommended;
  const stages = architecture.stages.map((stage) => [stage.depth, stage.heads, stage.head_dim, stage.mlp_dim].join("x")).join(",");
  const asked = new URLSearchParams({ model: architecture.name, stages, regime });
  return [said(sentences), h("p", null, h("a", { href: `#design?${asked}` }, "Open it in the design view"))];
}

const SHOWN = { measurement, heads, ranks, design, theory: ({ record }) => [theoryPlot(record)] };

async function overlay(places) {
  const found = await Promise.all(places.map((place) => ask("/api/record", { place })));
  return [layersPlot(found.map(({ record, place }) => measurementSeries(record, `${record.model} (${place})`)))];
}

function link(record, open, kind) {
  return h(
    "li",
    null,
    h("a", { href: `#measure?${new URLSearchParams({ open: record.place })}`, "aria-current": open.includes(record.place) ? "true" : null }, name(record.name)),
    h("span", { class: "quiet-text" }, name(record.about || record.place)),
    kind === "measurement" && open.length > 0 && open.length < MOST && !open.includes(record.place)
      ? h("a", { class: "plus", href: `#measure?${new URLSearchParams([...open, record.place].map((place) => ["open", place]))}` }, "beside", h("span", { class: "unseen" }, ` ${shortened(record.name, 60)}`))
      : null,
  );
}

/** The view: a list of what was measured, and what is open. */
export async function measureView(place, asked, found) {
  const open = asked.getAll("open").slice(0, MOST);
  const records = found.records.filter((record) => record.kind in KINDS);
  const models = found.models.slice(0, MOST_MODELS);
  const trained = found.studies.filter((study) => study.kind === "comparison" && study.finished);
  const body = h("div", { class: "stack" }, h("p", { class: "waiting" }, "Reading…"));
  const list = h(
    "nav",
    { class: "list card", "aria-label": "Measurements" },
    Object.entries(KINDS).map(([kind, title]) => {
      const here = records.filter((record) => record.kind === kind);
      return here.length ? [h("h2", null, title), h("ul", null, here.map((record) => link(record, open, kind)))] : null;
    }),
    models.length ? [h("h2", null, "Models here"), h("ul", null, models.map((model) => h("li", null, h("a", { href: `#measure?${new URLSearchParams({ model })}`, "aria-current": asked.get("model") === model ? "true" : null }, name(model || "this folder")))))] : null,
    trained.length ? [h("h2", null, "Along training"), h("ul", null, trained.map((study) => h("li", null, h("a", { href: `#measure?${new URLSearchParams({ study: study.place })}`, "aria-current": asked.get("study") === study.place ? "true" : null }, name(study.place || study.name)))))] : null,
  );
  if (!records.length && !trained.length && !models.length) {
    replace(place, h("h1", null, "Measure"), h("p", { class: "empty" }, "Nothing was measured in this folder yet: ", h("code", null, "leanformer measure vit_base_patch16_224"), " writes κ by layer."));
    return;
  }
  replace(place, h("h1", null, "Measure"), h("div", { class: "columns" }, list, body));
  try {
    if (asked.get("study") !== null) replace(body, await alongTraining(asked.get("study")));
    else if (asked.get("model") !== null) replace(body, await measuredNow(asked.get("model"), body));
    else if (open.length > 1) replace(body, section("Side by side", await overlay(open)));
    else if (records.length) {
      const record = await ask("/api/record", { place: open[0] ?? records[0].place });
      const { model, weights, inputs } = record.record;
      const about = [weights, inputs && `on ${inputs}`].filter(Boolean).join(", ");
      replace(body, section(shortened(model ?? KINDS[record.kind], 120), about ? h("p", { class: "quiet-text" }, h("bdi", null, shortened(about, 300))) : null, (SHOWN[record.kind] ?? (({ sentences }) => said(sentences)))(record)));
    } else if (trained.length) replace(body, await alongTraining(trained[0].place));
    else replace(body, h("p", { class: "empty" }, "Choose a model: it is measured then, on random inputs."));
  } catch (error) {
    replace(body, problem(error));
  }
}

/** κ of a saved model, which the server measures now if it has not yet. */
async function measuredNow(model, body) {
  replace(body, h("p", { class: "waiting" }, "Measuring…"));
  const found = await ask("/api/measure", { place: model });
  const about = `${found.record.weights}, on ${found.record.inputs}`;
  return section(shortened(model || "this folder", 120), h("p", { class: "quiet-text" }, h("bdi", null, shortened(about, 300))), measurement(found));
}

async function alongTraining(where) {
  const study = await ask("/api/study", { place: where });
  const arms = Object.entries(study.curves ?? {});
  const series = arms.flatMap(([arm, seeds], colour) => Object.values(seeds).map((run) => ({ name: arm, colour, thin: true, points: run.evaluations.filter((point) => point.kappa !== null).map((point) => ({ x: point.step, y: number(point.kappa) })) })));
  const last = arms.map(([arm, seeds], colour) => {
    const layers = Object.values(seeds)[0]?.evaluations.at(-1)?.layers ?? null;
    return layers && { name: `${arm}, first seed`, colour, points: layers.map((layer, place) => pointOf(place + 1, layer)) };
  });
  if (!series.some((one) => one.points.length)) return section(shortened(study.name, 120), h("p", { class: "empty" }, "κ was not measured in these runs."));
  return [
    section(shortened(study.name, 120), h("h3", null, "κ along training"), drawn((width) => lines({ width, label: "κ along training, a line per seed", x: { label: "step" }, y: { label: "κ, median over layers", log: true }, series }))),
    last.some(Boolean) ? section("κ by layer at the end", layersPlot(last.filter(Boolean))) : null,
  ];
}
