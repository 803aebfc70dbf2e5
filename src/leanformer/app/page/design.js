// The design view: a model and a design of it side by side.

import { cachedValues, readFormula } from "./arithmetic.js";
import { REGIMES, evaluated, sizesOf } from "./candidates.js";
import { announce, copyButton, drawn, h, problem, replace, section, shortened } from "./dom.js";
import { FORMS, emitted } from "./emit.js";
import { NOTHING, bytes, macs, parameters, percent, significant, whole } from "./formats.js";
import { frontSection, sizesInWords } from "./front.js";
import { logKappa } from "./gaussian.js";
import { lines } from "./plots.js";
import { WORDS, controls, problemOf } from "./sizes.js";
import { START, ask, formulaOf, modelOf } from "./sources.js";

const PARTS = [
  ["attention", "attention"],
  ["mlp", "MLP"],
  ["other", "norms and other layers"],
  ["embedding", "embedding"],
  ["head", "head"],
];
const MEMORY = [
  ["weights", "parameters"],
  ["states", "optimizer state"],
  ["activations", "activations"],
  ["gradients", "gradients"],
];

const usualSetting = () => ({ batch: 64, precision: "float32", attention: "fused", checkpointing: false, optimizer: "adamw", tokens: null });

/** What the address says: `model`, `stages` as depth×heads×head_dim×mlp_dim, the regime and the settings. */
function fromAddress(asked) {
  const setting = usualSetting();
  for (const word of ["precision", "attention", "optimizer"]) setting[word] = asked.get(word) ?? setting[word];
  if (Number(asked.get("batch")) >= 1) setting.batch = Math.floor(Number(asked.get("batch")));
  if (Number(asked.get("tokens")) >= 1) setting.tokens = Math.floor(Number(asked.get("tokens")));
  setting.checkpointing = asked.get("checkpointing") === "true";
  const stages = asked.get("stages")?.split(",").map((stage) => stage.split("x").map(Number)) ?? null;
  return { model: asked.get("model") ?? START.first, stages, regime: asked.get("regime") === "split" ? "split" : "fixed", setting };
}

function toAddress({ model, design, regime, setting }) {
  const asked = new URLSearchParams({ model: model.name, stages: design.map((sizes) => sizes.join("x")).join(","), regime });
  const usual = usualSetting();
  for (const [word, value] of Object.entries(setting)) if (value !== usual[word]) asked.set(word, String(value));
  return `#design?${asked.toString().replaceAll("%2C", ",")}`;
}

function modelPicker(now, saved, choose) {
  const names = Object.values(START.names).flat();
  const all = [...new Set([...names, ...saved])];
  const field = h("input", { id: "model", list: "models", value: now, autocomplete: "off", spellcheck: "false", "aria-describedby": "model-count" });
  field.addEventListener("change", () => {
    if (all.includes(field.value)) choose(field.value);
    else field.setAttribute("aria-invalid", "true");
  });
  field.addEventListener("focus", () => field.select());
  field.addEventListener("input", () => {
    field.removeAttribute("aria-invalid");
    if (all.includes(field.value)) choose(field.value);
  });
  return h(
    "div",
    { class: "picker" },
    h("label", { for: "model" }, "Model"),
    field,
    h("datalist", { id: "models" }, all.map((name) => h("option", { value: name }))),
    h("span", { id: "model-count", class: "quiet-text" }, `${whole(all.length)} to choose from: type to search`),
  );
}

function figureCard(title, id, now, was, share, note) {
  return h(
    "div",
    { class: "figure", id },
    h("h3", null, title),
    h("p", { class: "now" }, now),
    h("p", { class: "was" }, `was ${was}`),
    h("p", { class: "share" }, share),
    note ? h("p", { class: "quiet-text" }, note) : null,
  );
}

function figures(now, was, model, setting) {
  const ratio = (a, b) => percent(Number(a) / Number(b));
  const size = setting.precision === "float32" ? 4 : 2;
  const cache = [now, was].map((one) => cachedValues(one.sizes, model.unit) * size);
  const perSample = (cost) => Number(cost.macs) / setting.batch;
  return [
    figureCard("Parameters", "figure-params", parameters(now.cost.params.total), parameters(was.cost.params.total), ratio(now.cost.params.total, was.cost.params.total)),
    figureCard("MACs per sample", "figure-macs", macs(perSample(now.cost)), macs(perSample(was.cost)), ratio(perSample(now.cost), perSample(was.cost))),
    figureCard("Training memory", "figure-memory", bytes(now.cost.memory), bytes(was.cost.memory), ratio(now.cost.memory, was.cost.memory)),
    figureCard("κ, Gaussian", "figure-kappa", significant(now.kappa), significant(was.kappa), ratio(now.kappa, was.kappa)),
    model.caches ? figureCard("KV cache per token", "figure-cache", bytes(cache[0]), bytes(cache[1]), ratio(cache[0], cache[1]), `${size} bytes per number`) : null,
  ];
}

/** Parts of a sum as bars of both designs, with their numbers. */
function parts(title, id, words, now, was, total, text) {
  const most = Math.max(Number(total(now)), Number(total(was)), 1);
  const bar = (one, name) =>
    h(
      "div",
      { class: "bar", "aria-hidden": "true" },
      h("span", { class: "whose" }, name),
      h("span", { class: "track" }, words.map(([key], place) => (one[key] ? h("span", { class: "part", colour: place, share: (100 * Number(one[key])) / most }) : null))),
    );
  return h(
    "div",
    { class: "parts", id },
    h("h3", null, title),
    bar(was, "original"),
    bar(now, "design"),
    h(
      "table",
      { class: "small" },
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "part"), h("th", { scope: "col", class: "number" }, "original"), h("th", { scope: "col", class: "number" }, "design"))),
      h(
        "tbody",
        null,
        words
          .filter(([key]) => now[key] || was[key])
          .map(([key, word]) => {
            const place = words.findIndex(([other]) => other === key);
            return h("tr", null, h("th", { scope: "row" }, h("span", { class: "key", colour: place, "aria-hidden": "true" }), word), h("td", { class: "number" }, text(was[key])), h("td", { class: "number" }, text(now[key])));
          }),
        h("tr", { class: "bold" }, h("th", { scope: "row" }, "total"), h("td", { class: "number" }, text(total(was))), h("td", { class: "number" }, text(total(now)))),
      ),
    ),
  );
}

/** Of activations and gradients, the larger counts; the other is not shown in the bar. */
function memoryParts({ cost }) {
  const larger = cost.activations > cost.gradients ? "activations" : "gradients";
  return { weights: cost.weights, states: cost.states, [larger]: cost[larger], memory: cost.memory };
}

function guardList(candidate) {
  if (!candidate.guards.length) return h("p", { class: "good" }, "No guard speaks against this design.");
  const words = { note: "Note", warn: "Warning", refuse: "Refused" };
  return h(
    "ul",
    { class: "guards" },
    candidate.guards.map((guard) =>
      h("li", { class: guard.level }, h("p", null, h("strong", null, `${words[guard.level]}: ${guard.name}. `), guard.figure, "."), h("p", { class: "remedy" }, `Remedy: ${guard.remedy}.`)),
    ),
  );
}

function kappaPlot(width, { model, formula, original, candidate, stage }) {
  const tokens = formula.tokens.length > 1 ? formula.tokens[stage] : formula.tokens[0];
  const [, heads, headDim] = candidate.sizes[stage];
  const base = original.sizes[Math.min(stage, original.sizes.length - 1)];
  const most = Math.max(3 * tokens, 1.3 * heads * headDim, 1.3 * base[1] * base[2]);
  const kappa = (columns) => Math.exp(logKappa(model.constants, tokens, columns));
  const curve = new Set([tokens]);
  for (let step = 0; step <= 160; step += 1) curve.add(Math.max(2, Math.round((most * step) / 160)));
  const points = Array.from(curve).sort((a, b) => a - b).map((x) => ({ x, y: kappa(x) }));
  const dot = (name, h_, d, colour, radius) => ({ name, colour, radius, line: false, dots: true, points: [{ x: h_ * d, y: kappa(h_ * d), words: `${name}: ${h_} × ${d} = ${h_ * d} columns, κ ${significant(kappa(h_ * d))}` }] });
  return lines({
    width,
    height: 260,
    label: `Predicted κ against the columns h·d, with its cliff at ${tokens} tokens; this design has ${heads * headDim} columns and κ ${significant(kappa(heads * headDim))}`,
    x: { label: "columns of the attention block, h·d", from: 0, to: most },
    y: { label: "κ, Gaussian", log: true },
    marks: [{ x: tokens, words: `cliff: h·d = ${whole(tokens)} tokens` }],
    series: [{ name: "Gaussian block", colour: 5, points }, dot("original", base[1], base[2], 4, 5), dot("design", heads, headDim, 3, 7)],
  });
}

function codeSection(current) {
  const text = h("pre", { tabindex: "0", "aria-label": "The design as text" });
  let form = null;
  const show = async () => {
    const { model, candidate } = current();
    form = model.forms.includes(form) ? form : model.forms[0];
    replace(buttons, model.forms.map((one) => h("button", { type: "button", "aria-pressed": String(one === form), onclick: () => ((form = one), show()) }, FORMS[one])), copyButton("Copy", () => text.textContent));
    if (form !== "hf") text.textContent = emitted(model, candidate.sizes, form);
    else text.textContent = START.static === null ? "…" : `${emitted(model, candidate.sizes, "leanformer")}print(model.config.to_json_string())\n`;
    if (form === "hf" && START.static === null) {
      const asked = { model: model.name, form, stages: candidate.sizes.map((sizes) => sizes.join("x")).join(",") };
      try {
        const answer = await ask("/api/emit", asked);
        if (current().candidate === candidate && form === "hf") text.textContent = answer.text;
      } catch (error) {
        text.textContent = error.message;
      }
    }
  };
  const buttons = h("div", { class: "buttons" });
  return { element: section("Copy as", buttons, text), show };
}

/** The view of one model; `asked` is the address. */
export async function designView(place, asked, saved) {
  const wanted = fromAddress(asked);
  const open = (name) => (location.hash = `#design?${new URLSearchParams({ model: name })}`);
  const head = h("div", { class: "head" }, h("h1", null, "Design"), modelPicker(wanted.model, saved, open), copyButton("Copy link", () => location.href));
  const body = h("div", { id: "design" }, h("p", { class: "waiting" }, "Counting ", h("bdi", null, shortened(wanted.model, 80)), "… the first time takes some seconds."));
  replace(place, head, body);
  try {
    const model = await modelOf(wanted.model);
    const plain = await formulaOf(model.name, wanted.setting);
    if (place.isConnected && body.isConnected) showModel(body, model, plain, wanted);
  } catch (error) {
    replace(body, problem(error));
  }
}

function readDesign(model, wanted) {
  const fits = (stages) =>
    (stages.length === model.stages.length || !model.structural) &&
    stages.every((sizes, place) => sizes.length === WORDS.length && !problemOf(model, place, sizes, "fixed"));
  return wanted.stages && fits(wanted.stages) ? wanted.stages : null;
}

function showModel(body, model, plain, wanted) {
  const now = { model, regime: wanted.regime, setting: wanted.setting, stage: 0, problem: "", design: sizesOf(model.stages) };
  const place = { figures: h("div", { class: "figures", id: "figures" }), parts: h("div", { class: "two" }), guards: h("div", { "aria-live": "polite", id: "guards" }) };
  const take = (formula) => Object.assign(now, { plain: formula, exact: readFormula(formula, BigInt), formula: readFormula(formula, Number) });
  const evaluate = (sizes, regime) => evaluated(model, now.exact, sizes, regime, now.setting);
  const front = frontSection(() => now, (candidate) => move({ design: candidate.sizes, regime: candidate.regime, stage: 0 }));
  const code = codeSection(() => now);
  const plot = drawn((width) => kappaPlot(width, now), { id: "kappa" });

  const show = () => {
    now.candidate = evaluate(now.design, now.regime);
    panel.show();
    replace(place.figures, figures(now.candidate, now.original, model, now.setting));
    replace(
      place.parts,
      parts("Parameters by part", "parts-params", PARTS, now.candidate.cost.params, now.original.cost.params, (one) => one.total, whole),
      parts(`Training memory by part, batch ${now.setting.batch}`, "parts-memory", MEMORY, memoryParts(now.candidate), memoryParts(now.original), (one) => one.memory, (value) => (value === undefined ? NOTHING : bytes(value))),
    );
    replace(place.guards, guardList(now.candidate));
    if (plot.clientWidth) replace(plot, kappaPlot(Math.max(260, plot.clientWidth), now));
    later();
  };

  let waiting = 0;
  let address = location.hash;
  /** What need not follow every move at once. The address is left alone if somebody has just chosen another view. */
  const later = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      front.show();
      code.show();
      if (body.isConnected && location.hash === address) history.replaceState(null, "", toAddress(now));
      address = location.hash;
      body.dataset.shown = sizesInWords(now.design);
    }, 60);
  };

  const count = () => {
    now.original = evaluate(sizesOf(model.stages), "fixed");
    now.candidate = evaluate(now.design, now.regime);
    front.count();
  };

  const move = (changed) => {
    Object.assign(now, changed, { problem: "" });
    show();
  };

  let counting = 0;
  const setting = async (changed) => {
    const next = { ...now.setting, ...changed };
    if (!Number.isInteger(next.batch) || next.batch < 1 || next.batch > 2 ** 31) return void move({ problem: "batch must be a whole number of at least 1." });
    const turn = (counting += 1);
    const status = body.querySelector("#counting");
    if (!("batch" in changed || "optimizer" in changed)) status.textContent = "counting this setting…";
    try {
      const formula = await formulaOf(model.name, next);
      if (turn !== counting) return;
      now.setting = next;
      take(formula);
      count();
      move({});
      status.textContent = "";
    } catch (error) {
      status.textContent = "";
      move({ problem: error.message });
    }
  };

  const change = {
    size(word, value) {
      const sizes = [...now.design[now.stage]];
      sizes[WORDS.indexOf(word)] = value;
      const wrong = problemOf(model, now.stage, sizes, now.regime);
      if (wrong) return void move({ problem: wrong });
      if (now.regime === "split" && word === "heads") sizes[2] = model.stages[Math.min(now.stage, model.stages.length - 1)].width / value;
      move({ design: now.design.map((old, index) => (index === now.stage ? sizes : old)) });
      return undefined;
    },
    regime(regime) {
      if (regime === "fixed") return void move({ regime });
      const split = now.design.map((sizes, index) => {
        const { width } = model.stages[Math.min(index, model.stages.length - 1)];
        const wrong = problemOf(model, index, sizes, "split");
        const heads = wrong ? model.stages[Math.min(index, model.stages.length - 1)].heads : sizes[1];
        return [sizes[0], heads, width % heads ? sizes[2] : width / heads, sizes[3]];
      });
      return void move({ regime, design: split });
    },
    stage: (which) => move({ stage: Number(which) }),
    setting: (changed) => setting(changed),
    original: () => move({ design: sizesOf(model.stages), regime: "fixed", stage: 0 }),
    first: () => front.first() && move({ design: front.first().sizes, regime: front.first().regime, stage: 0 }),
  };

  take(plain);
  const panel = controls(model, () => now, change);
  replace(
    body,
    h(
      "div",
      { class: "workbench" },
      place.figures,
      panel.element,
      h(
        "div",
        { class: "stack" },
        model.origin ? h("p", { class: "quiet-text" }, model.origin) : null,
        section("Guards", place.guards),
        section("Costs by part", place.parts, h("p", { class: "quiet-text" }, "Of activations and gradients, the larger counts: they are not needed at the same time.")),
        section("Predicted conditioning", h("p", { class: "quiet-text" }, "κ that a Gaussian block of this size would have. Real attention is far above it: take it as a direction."), plot),
        front.element,
        code.element,
      ),
    ),
  );
  count();
  now.design = readDesign(model, wanted) ?? front.first()?.sizes ?? now.design;
  now.regime = wanted.stages ? wanted.regime : (front.first()?.regime ?? REGIMES[0]);
  show();
  announce(`${shortened(model.title, 80)} is shown`);
  if (START.static === null) prefetch(model.name, now.setting);
}

/** Ask for the settings next to this one, so that a change of one of them needs no waiting. */
async function prefetch(name, setting) {
  const near = [
    { ...setting, precision: setting.precision === "float32" ? "bfloat16" : "float32" },
    { ...setting, attention: setting.attention === "fused" ? "explicit" : "fused" },
    { ...setting, checkpointing: !setting.checkpointing },
  ];
  for (const other of near) await formulaOf(name, other).catch(() => null);
}
