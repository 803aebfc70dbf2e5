// The claims of the papers: how many hold, and each with its rule, its result and the command that tests it.

import { drawn, h, replace, section, shortened } from "./dom.js";
import { intervals, lines } from "./plots.js";

const MARKS = {
  holds: ["✓", "good", 2],
  "holds under another reading": ["≈", "fair", 1],
  "does not hold here": ["✗", "bad", 1],
  "cannot tell": ["?", "fair", 3],
  "not testable here": ["·", "none", 4],
};

function mark(status) {
  const [sign, kind] = MARKS[status] ?? ["", "none"];
  return h("span", { class: `status ${kind}` }, h("span", { "aria-hidden": "true" }, `${sign} `), shortened(status, 60));
}

function rowOf(title, mean, low, high, limit, status) {
  const span = low === null ? "" : `, from ${low} to ${high}`;
  const wanted = limit ? `; asked for is ${limit.side} ${limit.value}` : "";
  return { title, mean, low, high, limit: limit?.value ?? null, words: `${title}: ${mean}${span}${wanted}`, colour: MARKS[status]?.[2] ?? 0 };
}

/** The numbers that the rule judges: one for each part of the claim, or the claim's own. */
function intervalOf(claim) {
  const [low, high] = claim.interval ?? [null, null];
  const own = claim.value === null || claim.value === undefined ? [] : [rowOf(claim.spread ?? "", claim.value, low, high, claim.limit, claim.status)];
  const rows = claim.parts?.length ? claim.parts.map((part) => rowOf(shortened(part.name, 60), part.value, part.low ?? null, part.high ?? null, part.limit, part.status)) : own;
  if (!rows.length) return null;
  const label = rows.map((row) => row.words).join("; ");
  const judged = rows.length > 1 ? "the numbers that the rule judges" : "the number that the rule judges";
  return drawn((width) => intervals({ width, rows, unit: rows.some((row) => row.limit !== null) ? `${judged}, and the limit` : judged, label }));
}

function told(name, value) {
  return value ? [h("dt", null, name), h("dd", null, value)] : null;
}

function shownClaim(claim) {
  const body = h("div", { class: "claim-body" });
  const details = h(
    "details",
    { class: "claim" },
    h("summary", null, mark(claim.status), h("span", { class: "claim-words" }, shortened(claim.statement, 400)), h("span", { class: "quiet-text" }, shortened(claim.where, 120), claim.extension ? "; beyond the paper's text" : "")),
    body,
  );
  details.addEventListener("toggle", () => {
    if (!details.open || body.childElementCount) return;
    replace(
      body,
      h(
        "dl",
        { class: "told" },
        told("printed", claim.printed.map((words) => shortened(words, 200)).join("; ")),
        told("found", shortened(claim.result, 2000)),
        told("rule", shortened(claim.rule, 600)),
        told("tested on", shortened(claim.scale, 600)),
        told("command", h("code", null, shortened(claim.test, 300))),
        told("records", claim.records.map((file) => shortened(file, 120)).join(", ")),
        told("at the paper's scale", claim.at_scale && shortened(claim.at_scale, 300)),
      ),
      intervalOf(claim),
    );
  });
  return details;
}

function matches(claim, words) {
  const text = `${claim.statement} ${claim.where} ${claim.result} ${claim.paper}`.toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** All claims, with a button for each status and a field to search them. */
export function claimsSection(claims) {
  const chosen = new Set();
  const list = h("div", { class: "stack", id: "claims" });
  const field = h("input", { type: "search", id: "claim-search", placeholder: "such as: Figure 3, heads, memory" });
  const shown = h("p", { class: "quiet-text", role: "status" });
  const update = () => {
    const left = claims.filter((claim) => (!chosen.size || chosen.has(claim.status)) && matches(claim, field.value.trim()));
    shown.textContent = left.length === claims.length ? `${claims.length} claims` : `${left.length} of ${claims.length} claims`;
    replace(
      list,
      [...new Set(left.map((claim) => claim.paper))].map((paper) => [h("h3", null, shortened(paper, 80)), left.filter((claim) => claim.paper === paper).map(shownClaim)]),
    );
  };
  const button = (status) => {
    const many = claims.filter((claim) => claim.status === status).length;
    const made = h("button", { type: "button", class: "figure", "aria-pressed": "false" }, mark(status), h("span", { class: "now" }, String(many)));
    made.addEventListener("click", () => {
      const on = !chosen.delete(status) && Boolean(chosen.add(status));
      made.setAttribute("aria-pressed", String(on));
      update();
    });
    return made;
  };
  field.addEventListener("input", update);
  update();
  return [
    h("div", { class: "figures", role: "group", "aria-label": "Show claims of a status" }, Object.keys(MARKS).map(button)),
    section("Claims", h("label", { for: "claim-search" }, "Search the claims"), field, shown, list),
  ];
}

/** A figure of the paper as it came out here, panel by panel. */
export function paperFigure(record) {
  const panels = [...new Set(record.points.map((point) => point.panel))];
  const across = { label: record.x_label };
  const up = { label: record.y_label, log: record.log_y };
  const panelOf = (panel) => {
    const own = record.points.filter((point) => point.panel === panel);
    const names = [...new Set(own.map((point) => point.line))];
    const series = names.map((line, place) => ({
      name: line,
      colour: place,
      line: record.joined,
      dots: true,
      whiskers: true,
      points: own
        .filter((point) => point.line === line)
        .sort((a, b) => a.x - b.x)
        .map((point) => ({ ...point, words: `${point.note || line}: ${point.x}, ${Number(point.y.toPrecision(5))}` })),
    }));
    if (record.original !== null) {
      const xs = own.map((point) => point.x);
      const level = [Math.min(...xs), Math.max(...xs)].map((x) => ({ x, y: record.original }));
      series.push({ name: "original", colour: 4, dashed: true, points: level });
    }
    return h("div", null, panel ? h("h3", null, shortened(panel, 80)) : null, drawn((width) => lines({ width, label: `${record.title}, ${panel}`, x: across, y: up, series })));
  };
  const printed = record.printed.length ? h("p", { class: "quiet-text" }, `The paper prints: ${shortened(record.printed.join("; "), 600)}.`) : null;
  return section(`Figure ${record.number}: ${shortened(record.title, 160)}`, h("div", { class: "panels" }, panels.map(panelOf)), printed);
}
