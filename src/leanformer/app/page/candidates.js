// The candidates of a model, the front of those that none dominates, and the one to try first: leanformer.designing.

import { costOf } from "./arithmetic.js";
import { judged } from "./guards.js";

export const REGIMES = ["fixed", "split"];

export function sizesOf(stages) {
  return stages.map((stage) => [stage.depth, stage.heads, stage.head_dim, stage.mlp_dim]);
}

export function depthOf(sizes) {
  return sizes.reduce((sum, [depth]) => sum + depth, 0);
}

/** One design with everything that is known about it before training. */
export function evaluated(model, formula, sizes, regime, setting) {
  const cost = costOf(formula, sizes, setting.batch, model.constants.state_bytes[setting.optimizer]);
  const { kappa, guards } = judged(model, formula.tokens, sizes, regime);
  return { sizes, regime, cost, kappa, guards, depth: depthOf(sizes) };
}

export const isWarned = (candidate) => candidate.guards.some((guard) => guard.level !== "note");
export const isRefused = (candidate) => candidate.guards.some((guard) => guard.level === "refuse");

/** By default, half of the parameters in the layers; embedding and head stay. */
export function usualLimit(original) {
  const { total, embedding, head } = original.cost.params;
  return Math.floor((Number(total) + Number(embedding) + Number(head)) / 2);
}

function aimsOf(candidate) {
  const { params, memory } = candidate.cost;
  return [params.total, memory, Number(candidate.kappa.toFixed(3)), -candidate.depth];
}

function compared(a, b) {
  for (let place = 0; place < a.length; place += 1) {
    if (a[place] !== b[place]) return a[place] < b[place] ? -1 : 1;
  }
  return 0;
}

function dominates(a, b) {
  return compared(a, b) !== 0 && a.every((value, place) => value <= b[place]);
}

/** Those that no other dominates, largest first. */
export function frontOf(found) {
  const ordered = found.map((candidate) => [aimsOf(candidate), candidate]).sort((a, b) => compared(a[0], b[0]));
  const best = [];
  for (const pair of ordered) {
    if (!best.some(([aims]) => dominates(aims, pair[0]))) best.push(pair);
  }
  return best.map(([, candidate]) => candidate).sort((a, b) => b.cost.params.total - a.cost.params.total);
}

function preference(base, candidate) {
  const layers = (stages) => {
    const depth = depthOf(stages);
    return stages.reduce((sum, [layers_, heads]) => sum + layers_ * heads, 0) / depth;
  };
  const heads = layers(candidate.sizes) / layers(base);
  const mlp = Math.min(...candidate.sizes.map((size) => size[3])) / Math.min(...base.map((size) => size[3]));
  return [
    Number(!isWarned(candidate)),
    Number(candidate.sizes.length === base.length),
    Number(heads >= 4 / 3 - 1e-9),
    Number(mlp >= 0.5 - 1e-9),
    Number(candidate.regime === "fixed"),
    candidate.depth,
    -Math.abs(heads - (base.length === 1 ? 4 / 3 : 2)),
    candidate.cost.params.total,
  ];
}

/** All candidates within a limit of parameters that no guard refuses, their front, and the one to try first. */
export function planned(model, formula, setting, limit) {
  const base = sizesOf(model.stages);
  const found = [];
  for (const [regime, sizes] of model.candidates) {
    const candidate = evaluated(model, formula, sizes, REGIMES[regime], setting);
    if (candidate.cost.params.total <= limit && !isRefused(candidate)) found.push(candidate);
  }
  let first = null;
  let best = null;
  for (const candidate of found) {
    const value = preference(base, candidate);
    if (best === null || compared(value, best) > 0) [first, best] = [candidate, value];
  }
  return { found, front: frontOf(found), first };
}
