// The controls of a design: sliders and fields of its sizes, and the settings of training.

import { h } from "./dom.js";
import { START } from "./sources.js";

export const WORDS = ["depth", "heads", "head_dim", "mlp_dim"];
const TITLES = { depth: "Layers", heads: "Heads", head_dim: "head_dim", mlp_dim: "MLP" };
const LARGEST = 2 ** 31 - 1;
const DEEPEST = 10000;

/** Values that a slider offers for a size of a stage; a field takes others too. */
export function choicesOf(model, stage, word, regime, now) {
  const base = model.stages[Math.min(stage, model.stages.length - 1)];
  const found = new Set([base[word], now]);
  const range = (from, to, step) => {
    for (let value = from; value <= to; value += step) found.add(value);
  };
  if (word === "depth") range(1, Math.max(4, Math.ceil(base.depth * 1.5)), 1);
  if (word === "heads" && regime === "fixed") range(model.unit, Math.max(8 * model.unit, 3 * base.heads), model.unit);
  if (word === "heads" && regime === "split") {
    for (let heads = 1; heads <= Math.min(base.width, 8 * base.heads); heads += 1) {
      if (!problemOf(model, stage, [1, heads, base.width / heads, 2], regime)) found.add(heads);
    }
  }
  if (word === "head_dim") range(8, Math.max(128, 2 * base.head_dim), 8);
  if (word === "mlp_dim") range(Math.max(2, base.mlp_dim >> 4), 2 * base.mlp_dim, Math.max(2, (base.mlp_dim >> 5) * 2));
  return Array.from(found).sort((a, b) => a - b);
}

/** What is wrong with the sizes of a stage, in a sentence; empty if nothing is. */
export function problemOf(model, stage, sizes, regime) {
  const { width } = model.stages[Math.min(stage, model.stages.length - 1)];
  for (const [place, word] of WORDS.entries()) {
    const most = word === "depth" ? DEEPEST : LARGEST;
    if (regime === "split" && word === "head_dim") continue;
    if (!Number.isInteger(sizes[place]) || sizes[place] < 1 || sizes[place] > most) return `${word} must be a whole number from 1 to ${most}.`;
  }
  const [, heads, headDim, mlpDim] = sizes;
  if (heads % model.unit) return `heads must be a multiple of ${model.unit}: that many query heads share one key.`;
  if (regime === "split" && width % heads) return `${heads} heads do not divide width ${width}, so they cannot split it.`;
  const size = regime === "split" ? width / heads : headDim;
  if (size % model.steps.head_dim) return `head_dim must be even in this family, got ${size}.`;
  if (mlpDim % model.steps.mlp_dim) return `mlp_dim must be even in this family, got ${mlpDim}.`;
  return "";
}

/** One size: a slider over the choices, and a field for any number. */
function sizeControl(word, changed) {
  const slider = h("input", { type: "range", id: `size-${word}`, min: 0, step: 1, "aria-label": `${TITLES[word]}, slider` });
  const field = h("input", { type: "number", min: 1, step: 1, id: `field-${word}`, inputmode: "numeric" });
  let choices = [];
  slider.addEventListener("input", () => changed(word, choices[Number(slider.value)]));
  field.addEventListener("change", () => changed(word, Number(field.value)));
  return {
    element: h("div", { class: "size" }, h("label", { for: `field-${word}` }, TITLES[word]), slider, field),
    show(now, values, disabled) {
      choices = values;
      slider.max = String(values.length - 1);
      slider.value = String(values.indexOf(now));
      slider.setAttribute("aria-valuetext", String(now));
      if (document.activeElement !== field || Number(field.value) !== now) field.value = String(now);
      slider.disabled = field.disabled = disabled;
    },
  };
}

export function choice(title, id, values, now, changed) {
  return h(
    "div",
    { class: "choice" },
    h("label", { for: id }, title),
    h("select", { id, onchange: (event) => changed(event.target.value) }, values.map((value) => h("option", { value, selected: value === now }, value))),
  );
}

/** Buttons of which one is pressed. */
export function toggles(title, values, now, changed) {
  return h(
    "fieldset",
    { class: "toggles" },
    h("legend", null, title),
    values.map(([value, words]) =>
      h(
        "label",
        null,
        h("input", { type: "radio", name: title, value, checked: value === now, onchange: () => changed(value) }),
        h("span", null, words),
      ),
    ),
  );
}

/** All controls; `state` is read when they are shown, `change` is called with what is to be different. */
export function controls(model, state, change) {
  const sizes = Object.fromEntries(WORDS.map((word) => [word, sizeControl(word, (which, value) => change.size(which, value))]));
  const stages = h("div");
  const batch = h("input", { type: "range", id: "batch", min: 0, max: 12, step: 1, "aria-label": "Batch, slider" });
  const batchField = h("input", { type: "number", id: "field-batch", min: 1, step: 1 });
  batch.addEventListener("input", () => change.setting({ batch: 2 ** Number(batch.value) }));
  batchField.addEventListener("change", () => change.setting({ batch: Number(batchField.value) }));
  const known = model.constants.settings;
  const settings = state().setting;
  const tokens =
    model.takes_tokens && START.static === null
      ? h(
          "div",
          { class: "choice" },
          h("label", { for: "tokens" }, "Tokens per text"),
          h("input", { type: "number", id: "tokens", min: 1, step: 1, placeholder: "usual", value: settings.tokens ?? "", onchange: (event) => change.setting({ tokens: Number(event.target.value) || null }) }),
        )
      : null;
  const element = h(
    "form",
    { class: "controls card", "aria-label": "Sizes and settings", onsubmit: (event) => event.preventDefault() },
    h("h2", null, "Sizes"),
    toggles("When heads change", [["fixed", "fixed: keep head_dim"], ["split", "split: keep the width"]], state().regime, change.regime),
    stages,
    WORDS.map((word) => sizes[word].element),
    h("p", { id: "size-problem", class: "problem", role: "alert" }),
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: change.original }, "Original"), h("button", { type: "button", onclick: change.first }, "Try first")),
    h("h2", null, "Training"),
    h("div", { class: "size" }, h("label", { for: "field-batch" }, "Batch"), batch, batchField),
    h(
      "div",
      { class: "pairs" },
      choice("Precision", "precision", known.precision, settings.precision, (precision) => change.setting({ precision })),
      choice("Attention", "attention", known.attention, settings.attention, (attention) => change.setting({ attention })),
      choice("Optimizer", "optimizer", known.optimizer, settings.optimizer, (optimizer) => change.setting({ optimizer })),
      tokens,
    ),
    h("label", { class: "check" }, h("input", { type: "checkbox", id: "checkpointing", checked: settings.checkpointing, onchange: (event) => change.setting({ checkpointing: event.target.checked }) }), "Gradient checkpointing"),
    h("p", { id: "counting", class: "quiet-text", role: "status" }),
  );
  let stagesShown = 0;
  const show = () => {
    const { design, regime, stage, setting, problem } = state();
    if (design.length !== stagesShown) {
      stagesShown = design.length;
      const values = design.map((_, place) => [String(place), String(place + 1)]);
      stages.replaceChildren(...(design.length > 1 ? [toggles("Stage", values, String(stage), change.stage)] : []));
    }
    WORDS.forEach((word, place) => {
      const now = design[stage][place];
      sizes[word].show(now, choicesOf(model, stage, word, regime, now), regime === "split" && word === "head_dim");
    });
    batch.value = String(Math.round(Math.log2(setting.batch)));
    batch.setAttribute("aria-valuetext", String(setting.batch));
    batchField.value = String(setting.batch);
    element.querySelector("#size-problem").textContent = problem;
  };
  return { element, show };
}
