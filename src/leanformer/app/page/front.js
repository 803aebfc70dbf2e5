// The front: designs that no other dominates, as a plot to click on and as a list for the keyboard.

import { depthOf, isWarned, planned, usualLimit } from "./candidates.js";
import { drawn, h, replace, section } from "./dom.js";
import { bytes, counted, parameters, percent, significant } from "./formats.js";
import { legend, points } from "./plots.js";

export function sizesInWords(sizes) {
  const joined = (place) => {
    const values = sizes.map((size) => size[place]);
    return new Set(values).size === 1 ? String(values[0]) : values.join("/");
  };
  return `${counted(depthOf(sizes), "layer")}, ${joined(1)} heads of ${joined(2)}, MLP ${joined(3)}`;
}

function shownRows(plan) {
  const picked = new Map();
  const rest = plan.front
    .filter((candidate) => candidate !== plan.first)
    .map((candidate, place) => [Number(isWarned(candidate)), Number(candidate.regime !== "fixed"), place, candidate])
    .sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
  for (const [, , , candidate] of rest) {
    const key = `${candidate.depth} ${candidate.regime}`;
    if (!picked.has(key)) picked.set(key, candidate);
  }
  return Array.from(picked.values()).sort((a, b) => b.depth - a.depth || (a.regime < b.regime ? -1 : 1));
}

/** The section of the front. `state` says what is shown now; `choose` takes a candidate. */
export function frontSection(state, choose) {
  let plan = null;
  let limit = null;
  const about = h("p", { class: "quiet-text" });
  const list = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Designs of the front" });
  const slider = h("input", { type: "range", id: "limit", min: 5, max: 100, step: 1 });
  const shownLimit = h("output", { for: "limit" });
  const plot = drawn((width) => picture(width), { id: "front" });
  let redraw = () => {};

  const picture = (width) => {
    const { original, candidate } = state();
    redraw = () => replace(plot, picture(Math.max(260, plot.clientWidth)));
    if (plan === null) return h("p", null, "…");
    const at = (one, more) => ({ x: Number(one.cost.params.total) / 1e6, y: Number(one.cost.memory) / 1e9, words: describe(one, original), ...more });
    return points({
      width,
      label: `${plan.front.length} designs of the front: training memory against parameters`,
      x: { label: "parameters, millions" },
      y: { label: "training memory, GB" },
      cloud: plan.found.map((one) => at(one, {})),
      chosen: [
        ...plan.front.map((one) => at(one, { kind: isWarned(one) ? "warned" : "", colour: one.regime === "fixed" ? 0 : 1, value: one })),
        ...(plan.first ? [at(plan.first, { kind: "first", colour: 2, radius: 7, value: plan.first })] : []),
        at(original, { kind: "original", colour: 4, radius: 6 }),
        at(candidate, { kind: "current", colour: 3, radius: 9 }),
      ],
      choose,
    });
  };

  const describe = (one, original) =>
    `${sizesInWords(one.sizes)} (${one.regime}): ${parameters(one.cost.params.total)} parameters, ` +
    `${percent(Number(one.cost.params.total) / Number(original.cost.params.total))}, ${bytes(one.cost.memory)}, κ ${significant(one.kappa)}`;

  const row = (one, original, words) =>
    h(
      "tr",
      { class: words ? "bold" : null },
      h("td", null, h("button", { type: "button", class: "quiet", onclick: () => choose(one) }, words || "Use", h("span", { class: "unseen" }, `: ${sizesInWords(one.sizes)}, ${one.regime}`))),
      [one.depth, joinedSizes(one, 1), joinedSizes(one, 2), joinedSizes(one, 3)].map((value) => h("td", { class: "number" }, String(value))),
      h("td", { class: "number" }, parameters(one.cost.params.total)),
      h("td", { class: "number" }, percent(Number(one.cost.params.total) / Number(original.cost.params.total))),
      h("td", { class: "number" }, bytes(one.cost.memory)),
      h("td", { class: "number" }, significant(one.kappa)),
      h("td", null, one.regime),
      h("td", null, one.guards.map((guard) => guard.name).join(", ")),
    );

  const listRows = () => {
    const { original } = state();
    const head = ["", "layers", "heads", "head_dim", "MLP", "params", "", "memory", "κ Gauss", "regime", "guards"];
    const rows = shownRows(plan).slice(0, 12);
    replace(
      list,
      h(
        "table",
        null,
        h("caption", { class: "unseen" }, "The design to try first, and one of the front for each depth and regime"),
        h("thead", null, h("tr", null, head.map((word, place) => h(word ? "th" : "td", { class: place > 0 && place < 9 ? "number" : null, scope: word ? "col" : null }, word)))),
        h("tbody", null, plan.first ? row(plan.first, original, "Try first") : null, rows.map((one) => row(one, original, ""))),
      ),
    );
  };

  const count = () => {
    const { model, formula, setting, original } = state();
    const most = limit === null ? usualLimit(original) : Math.floor((Number(original.cost.params.total) * limit) / 100);
    plan = planned(model, formula, setting, most);
    slider.value = String(Math.round((100 * most) / Number(original.cost.params.total)));
    const words = limit === null ? " (half of what the layers have)" : "";
    shownLimit.textContent = `${parameters(most)}, ${percent(most / Number(original.cost.params.total))}${words}`;
    about.textContent = plan.found.length
      ? `${counted(plan.found.length, "design")} within the limit, ${plan.front.length} on the front: none is better in parameters, memory, κ and depth at once. Click a point to see it.`
      : "No design is within the limit.";
    listRows();
    redraw();
  };
  slider.addEventListener("input", () => {
    limit = Number(slider.value);
    count();
  });
  const keys = [
    { name: "front, fixed", colour: 0 },
    { name: "front, split", colour: 1 },
    { name: "try first", colour: 2 },
    { name: "this design", colour: 3 },
    { name: "original", colour: 4 },
  ];
  const element = section(
    "The front",
    about,
    h("div", { class: "size wide" }, h("label", { for: "limit" }, "At most"), slider, shownLimit),
    plot,
    legend(keys),
    list,
  );
  return { element, count, show: () => redraw(), first: () => plan?.first ?? null };
}

function joinedSizes(one, place) {
  const values = one.sizes.map((size) => size[place]);
  return new Set(values).size === 1 ? values[0] : values.join(" ");
}
