// The paper view: the claims, the figures for which there are records, and every printed count beside the recount.

import { claimsSection, paperFigure } from "./claims.js";
import { drawn, h, problem, replace, section, shortened, table } from "./dom.js";
import { percent, whole } from "./formats.js";
import { headsPlot, theoryPlot } from "./measure.js";
import { lines } from "./plots.js";
import { ask } from "./sources.js";

const MARKS = { matches: ["✓", "good"], "matches under another reading than printed": ["≈", "fair"], unexplained: ["✗", "bad"], "not printed": ["·", "none"] };

const listed = (value) => (Array.isArray(value) ? value.join(" ") : value === null || value === undefined ? "–" : String(value));

function mark(status) {
  const [sign, kind] = MARKS[status] ?? ["", ""];
  return h("span", { class: `status ${kind}` }, h("span", { "aria-hidden": "true" }, `${sign} `), status);
}

function scorecardTable(rows) {
  const memory = rows.some((row) => row.memory);
  const head = ["table", "model", "variant", "layers", "heads", "MLP", "printed", "recount", "status", ...(memory ? ["GB printed", "GB counted"] : []), "reading"];
  const cells = rows.map((row) => [
    row.table,
    row.model,
    row.variant,
    listed(row.printed.depth),
    listed(row.printed.heads),
    listed(row.printed.mlp_dim),
    row.printed.params ?? "–",
    whole(row.params),
    mark(row.status),
    ...(memory ? [listed(row.memory?.printed_gb), row.memory ? row.memory.counted_gb.toFixed(1) : "–"] : []),
    shortened(row.reading, 200),
  ]);
  return table(head, cells, { left: 3, caption: "Scorecard" });
}

function memoryPlot(rows) {
  const found = rows.filter((row) => row.memory);
  if (!found.length) return null;
  const most = Math.max(...found.flatMap((row) => [row.memory.printed_gb, row.memory.counted_gb]));
  const dots = (variant) => found.filter((row) => row.variant === variant).map((row) => ({ x: row.memory.printed_gb, y: row.memory.counted_gb, words: `${row.model}, ${row.variant}: ${row.memory.printed_gb} GB printed, ${row.memory.counted_gb} GB counted` }));
  const variants = [...new Set(found.map((row) => row.variant))];
  return section(
    "Training memory, printed and counted",
    drawn((width) =>
      lines({
        width,
        label: "Counted against printed training memory",
        x: { label: "printed, GB", from: 0, to: most * 1.05 },
        y: { label: "counted, GB", from: 0, to: most * 1.05 },
        series: [{ name: "equal", colour: 4, dashed: true, points: [{ x: 0, y: 0 }, { x: most, y: most }] }, ...variants.map((variant, place) => ({ name: variant, colour: place, line: false, dots: true, radius: 4, points: dots(variant) }))],
      }),
    ),
  );
}

function counts(rows) {
  const found = new Map();
  for (const row of rows) found.set(row.status, (found.get(row.status) ?? 0) + 1);
  return h("div", { class: "figures" }, Array.from(found, ([status, count]) => h("div", { class: "figure" }, h("h3", null, mark(status)), h("p", { class: "now" }, String(count)), h("p", { class: "share" }, percent(count / rows.length)))));
}

const SHOWN = { "paper-figure": (one) => paperFigure(one.record), theory: (one) => section("Theorem 3.2 against simulation", theoryPlot(one.record)), heads: (one) => section(`κ against heads, the form of Fig. 2: ${shortened(one.record.model, 80)}, ${shortened(one.record.weights, 60)}`, headsPlot(one.record)) };
const MOST_FIGURES = 16;

async function figuresOf(found) {
  const records = found.records.filter((record) => record.kind in SHOWN).slice(0, MOST_FIGURES);
  const read = await Promise.all(records.map((record) => ask("/api/record", { place: record.place }).catch(() => null)));
  return read.filter((one) => one && (one.kind !== "paper-figure" || one.record.points.length)).map((one) => SHOWN[one.kind](one));
}

export async function paperView(place, asked, found) {
  const body = h("div", { class: "stack" }, h("p", { class: "waiting" }, "Reading the scorecard…"));
  replace(place, h("h1", null, "Paper"), h("p", { class: "quiet-text" }, "What the records say about each claim of “Leaner Transformers: More Heads, Less Depth” and “Quality over Quantity in Attention Layers”."), body);
  try {
    const card = await ask("/api/paper");
    replace(body, shownCard(card), await figuresOf(found));
  } catch (error) {
    replace(body, problem(error));
  }
}

function shownCard({ record, sentences, place }) {
  const source = place ? ["From ", h("code", null, shortened(place, 200)), "."] : "From the records that come with leanformer.";
  return [
    record.claims.length ? claimsSection(record.claims) : null,
    section("In short", h("ul", { class: "said" }, sentences.map((words) => h("li", null, shortened(words, 1000)))), h("p", { class: "quiet-text" }, source)),
    section("Printed counts beside the recount", counts(record.rows), scorecardTable(record.rows)),
    memoryPlot(record.rows),
  ];
}
