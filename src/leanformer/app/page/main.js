// The page: which view is shown, by the fragment of its address.

import { cachedValues, costOf, readFormula } from "./arithmetic.js";
import { evaluated, planned, usualLimit } from "./candidates.js";
import { designView } from "./design.js";
import { h, name, problem, replace } from "./dom.js";
import { emitted } from "./emit.js";
import { measureView } from "./measure.js";
import { paperView } from "./paper.js";
import { START, ask } from "./sources.js";
import { studiesView } from "./studies.js";

const VIEWS = { design: "Design", measure: "Measure", studies: "Studies", paper: "Paper" };
const NOTHING_FOUND = { studies: [], runs: [], records: [], models: [], truncated: false, exists: false };

const main = document.getElementById("main");

function wanted() {
  const [view, asked] = location.hash.slice(1).split("?", 2);
  return [view in VIEWS && START.static === null ? view : "design", new URLSearchParams(asked ?? "")];
}

function navigation(view) {
  const shown = START.static === null ? Object.entries(VIEWS) : [];
  replace(document.getElementById("views"), shown.map(([key, title]) => h("a", { href: `#${key}`, "aria-current": key === view ? "page" : null }, title)));
}

let turn = 0;

async function show() {
  const [view, asked] = wanted();
  const mine = (turn += 1);
  navigation(view);
  document.title = `${VIEWS[view]} · leanformer explorer`;
  const place = h("div", { class: `view ${view}` });
  const focused = document.activeElement?.id;
  replace(main, place);
  try {
    if (view === "design") {
      await designView(place, asked, await savedModels());
    } else {
      const found = await ask("/api/folder");
      if (mine !== turn) return;
      if (!found.exists) replace(place, h("h1", null, VIEWS[view]), h("p", { class: "empty" }, "The folder ", name(START.folder), " does not exist yet."));
      if (found.exists || view === "paper") await { measure: measureView, studies: studiesView, paper: paperView }[view](place, asked, found);
    }
  } catch (error) {
    replace(place, problem(error));
  }
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

/** Saved models are looked for once, beside the first view. */
let saved = null;
async function savedModels() {
  if (START.static !== null) return [];
  saved ??= ask("/api/folder").catch(() => NOTHING_FOUND);
  return (await saved).models.map((place) => `saved:${place}`);
}

if (START.folder) replace(document.getElementById("folder"), name(START.folder));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment says which view is shown
  main.focus();
});
addEventListener("hashchange", show);
show();

// For tests, and for those who would rather type: the page's own arithmetic.
globalThis.leanformer = Object.freeze({ cachedValues, costOf, evaluated, emitted, planned, readFormula, usualLimit });
