// What may go wrong with a design, with the number behind it: leanformer.designing.guards, in the same words.

import { roundHalfEven } from "./formats.js";
import { cliffFactor, logKappa, nearCliff, safeHeads } from "./gaussian.js";

function levelOf(known, headDim) {
  const lost = known.findings.filter((found) => found.head_dim >= headDim && found.high < 0);
  if (lost.some((found) => found.high < -found.margin)) return "refuse";
  return lost.length ? "warn" : "note";
}

function evidenceOf(known, headDim) {
  const nearest = new Map();
  const distance = (found) => Math.abs(Math.log2(found.head_dim / headDim));
  for (const found of known.findings) {
    const best = nearest.get(found.task);
    if (best === undefined || distance(found) < distance(best)) nearest.set(found.task, found);
  }
  return Array.from(nearest.values(), (found) => found.text).join("; ");
}

function rank(known, original, stage, tokens, regime) {
  if (stage.head_dim >= Math.min(original.head_dim, stage.width, tokens, known.safe)) return [];
  const share = roundHalfEven((100 * stage.head_dim) / stage.width);
  const figure =
    `heads of ${stage.head_dim} (was ${original.head_dim}) have ${share} % of the rank of width ` +
    `${stage.width}, over ${tokens} tokens. Measured: ${evidenceOf(known, stage.head_dim)}; ${known.counterpoint} ` +
    "(docs/concepts/guards.md)";
  const remedy = regime === "split" ? "keep head_dim instead of the width" : `use heads of ${original.head_dim}`;
  return [{ name: "rank", level: levelOf(known, stage.head_dim), figure, remedy }];
}

function cliff(known, stage, tokens) {
  const columns = stage.heads * stage.head_dim;
  if (!nearCliff(known, tokens, columns)) return [];
  const factor = roundHalfEven(cliffFactor(known, tokens, columns));
  const figure =
    `h·d = ${columns} is near the ${tokens} tokens, where a Gaussian block is ${factor} times ` +
    "worse conditioned than one twice as wide";
  const more = safeHeads(known, tokens, stage.head_dim);
  let fewer = stage.heads - 1;
  while (fewer > 0 && nearCliff(known, tokens, fewer * stage.head_dim)) fewer -= 1;
  const below = fewer > 0 ? `${fewer} or fewer, or ` : "";
  return [{ name: "cliff", level: "warn", figure, remedy: `${below}${more} or more heads of ${stage.head_dim} are clear of it` }];
}

function noPredictedGain(known, original, stage, tokens, regime) {
  const before = original.heads * original.head_dim;
  const after = stage.heads * stage.head_dim;
  if (regime !== "split" || stage.heads <= original.heads) return [];
  if (logKappa(known, tokens, before) - logKappa(known, tokens, after) > Math.log(known.gain)) return [];
  const was = after === before ? "" : ` (was ${before})`;
  const change = after < before ? `lowers h·d from ${before} to ${after}` : `leaves h·d at ${after}${was}`;
  return [
    {
      name: "no predicted gain",
      level: "warn",
      figure: `split ${change}, on which alone Theorem 3.2 depends`,
      remedy: "keep head_dim if conditioning is the aim",
    },
  ];
}

function hardware(stage) {
  const size = stage.head_dim;
  if (size % 8) {
    const near = Array.from(new Set([Math.max(8, Math.floor(size / 8) * 8), Math.ceil(size / 8) * 8])).sort((a, b) => a - b);
    const figure = `head_dim ${size} is not a multiple of 8, so fused kernels pad it or cannot be used`;
    return [{ name: "hardware", level: "note", figure, remedy: `use head_dim ${near.join(" or ")}` }];
  }
  if (size <= 256) return [];
  const figure = `head_dim ${size} is more than the 256 that fused kernels take`;
  return [{ name: "hardware", level: "note", figure, remedy: "use more heads of at most 256" }];
}

function named(width, [depth, heads, headDim, mlpDim]) {
  return { width, depth, heads, head_dim: headDim, mlp_dim: mlpDim };
}

/** Every concern about a design of a model, and κ of its worst stage if it were Gaussian. */
export function judged(model, tokens, sizes, regime) {
  const known = model.constants;
  const concerns = new Map();
  let worst = -Infinity;
  sizes.forEach((size, place) => {
    const base = model.stages[Math.min(place, model.stages.length - 1)];
    const stage = named(base.width, size);
    const rows = tokens.length > 1 ? tokens[place] : tokens[0];
    worst = Math.max(worst, logKappa(known, rows, stage.heads * stage.head_dim));
    for (const guard of [
      ...rank(known, base, stage, rows, regime),
      ...cliff(known, stage, rows),
      ...noPredictedGain(known, base, stage, rows, regime),
      ...hardware(stage),
    ]) {
      if (!concerns.has(guard.name)) concerns.set(guard.name, guard);
    }
  });
  return { kappa: Math.exp(worst), guards: Array.from(concerns.values()) };
}
