// The closed forms of costs, as leanformer.costs.closed_forms computes them.
//
// Coefficients are whole numbers. The design on the page is counted in BigInt, so every figure is exact however large a
// size somebody types. The many candidates of the front are counted in doubles, which are exact below 2^53, and quick.

import { roundHalfEven } from "./formats.js";

const [ONE, H, D, HD, HDD, MLP, SLOPE, OTHER] = [0, 1, 2, 3, 4, 5, 6, 7];

/** A formula with its coefficients as `of` makes them: BigInt or Number. */
export function readFormula(plain, of) {
  const count = (given) => ({
    scale: of(given.scale),
    stages: given.stages.map((kind) => kind.map(of)),
    tail: given.tail.map(of),
    outside: of(given.outside),
    perHeadDim: of(given.outside_per_head_dim),
  });
  return {
    of,
    unit: of(plain.unit),
    tokens: plain.tokens,
    embedding: of(plain.embedding),
    params: count(plain.params),
    macs: plain.forward_macs.map(count),
    saved: plain.saved.map(count),
    transient: plain.transient,
    batches: plain.batches.map(of),
    large: plain.large_batches,
  };
}

function floorDivision(a, b) {
  const rest = a % b;
  const lower = rest < 0 !== b < 0 && rest != 0; // eslint-disable-line eqeqeq
  return typeof a === "bigint" ? (a - rest) / b - (lower ? 1n : 0n) : (a - rest) / b - (lower ? 1 : 0);
}

function attentionOf(kind, heads, headDim) {
  return kind[ONE] + kind[D] * headDim + heads * (kind[H] + headDim * (kind[HD] + kind[HDD] * headDim));
}

function wholeOf(formula, count, scaled) {
  const two = formula.of(2);
  return count.scale === formula.of(1) ? scaled : floorDivision(two * scaled + count.scale, two * count.scale);
}

function kindsOf(count, stages) {
  return stages.map((_, place) => count.stages[count.stages.length > 1 ? place : 0]);
}

function tailOf(count, last) {
  return count.tail[ONE] + count.tail[MLP] + count.tail[SLOPE] * last[3] + count.tail[OTHER];
}

/** Stages are lists of depth, heads, head_dim and mlp_dim. */
function converted(formula, stages) {
  return stages.map(([depth, heads, headDim, mlpDim]) => [
    formula.of(depth),
    floorDivision(formula.of(heads), formula.unit),
    formula.of(headDim),
    formula.of(mlpDim),
  ]);
}

function totalOf(formula, count, stages) {
  let layers = formula.of(0);
  const kinds = kindsOf(count, stages);
  stages.forEach(([depth, heads, headDim, mlpDim], place) => {
    const kind = kinds[place];
    layers += depth * (attentionOf(kind, heads, headDim) + kind[MLP] + kind[SLOPE] * mlpDim + kind[OTHER]);
  });
  const outside = count.outside + count.perHeadDim * stages[0][2];
  return wholeOf(formula, count, layers + tailOf(count, stages.at(-1)) + outside);
}

function parametersOf(formula, stages) {
  const zero = formula.of(0);
  const count = formula.params;
  const found = { attention: zero, mlp: zero, other: zero, embedding: formula.embedding, head: zero };
  const kinds = kindsOf(count, stages);
  stages.forEach(([depth, heads, headDim, mlpDim], place) => {
    const kind = kinds[place];
    found.attention += wholeOf(formula, count, depth * attentionOf(kind, heads, headDim));
    found.mlp += wholeOf(formula, count, depth * (kind[MLP] + kind[SLOPE] * mlpDim));
    found.other += wholeOf(formula, count, depth * kind[OTHER]);
  });
  found.other += wholeOf(formula, count, tailOf(count, stages.at(-1)));
  found.head = wholeOf(formula, count, count.outside) - formula.embedding;
  return { ...found, total: found.attention + found.mlp + found.other + found.embedding + found.head };
}

function atBatch(formula, counts, stages, batch) {
  const [fewer, more] = counts.map((count) => totalOf(formula, count, stages));
  const [first, second] = formula.batches;
  return fewer + floorDivision((formula.of(batch) - first) * (more - fewer), second - first);
}

/** Everything that a design costs with this batch and this many bytes of optimizer state per parameter. */
export function costOf(formula, sizes, batch, stateBytes) {
  const stages = converted(formula, sizes);
  const params = parametersOf(formula, stages);
  const saved = atBatch(formula, formula.saved, stages, batch);
  const [fewer, more] = formula.transient;
  const slope = (more - fewer) / (formula.large[1] - formula.large[0]);
  const transient = formula.of(Math.max(0, roundHalfEven(fewer + (batch - formula.large[0]) * slope)));
  const weights = formula.of(4) * params.total;
  const states = formula.of(stateBytes) * params.total;
  const activations = saved + transient;
  return {
    params,
    macs: atBatch(formula, formula.macs, stages, batch),
    saved,
    weights,
    states,
    activations,
    gradients: weights,
    memory: weights + states + (activations > weights ? activations : weights),
  };
}

/** Numbers that decoding keeps of every token: keys and values; heads that share a key count once. */
export function cachedValues(sizes, unit) {
  return sizes.reduce((sum, [depth, heads, headDim]) => sum + 2 * depth * Math.floor(heads / unit) * headDim, 0);
}
