// What random-matrix theory says about κ of an attention block: leanformer.conditioning.gaussian.

/** E log κ of a Gaussian block of N tokens and M columns. */
export function logKappa(known, tokens, columns) {
  const n = Math.max(tokens, columns);
  const k = Math.min(tokens, columns);
  if (k === 1) return 0;
  const a = Math.sqrt(n - 0.5);
  const b = Math.sqrt(k - 0.5);
  const logTop = Math.log((a + b) ** 2 + known.tracy_widom_mean * (a + b) * (1 / a + 1 / b) ** (1 / 3));
  let logLow;
  if (n - k < known.hard_edge.length) {
    logLow = known.hard_edge[n - k] - Math.log(4 * k + 2 * (n - k) + 2);
  } else {
    const spread = (1 / b - 1 / a) ** (1 / 3) / (a - b);
    logLow = 2 * Math.log(a - b) + spread ** 2 / 8 - known.tracy_widom_mean * spread;
  }
  return (logTop - logLow) / 2;
}

/** How much worse conditioned a block is than one twice as wide. */
export function cliffFactor(known, tokens, columns) {
  return Math.exp(logKappa(known, tokens, columns) - logKappa(known, tokens, 2 * Math.max(columns, tokens)));
}

export function nearCliff(known, tokens, columns) {
  return cliffFactor(known, tokens, columns) > known.cliff;
}

/** The fewest heads that are past the square and clear of the cliff. */
export function safeHeads(known, tokens, headDim) {
  let heads = Math.max(1, Math.floor(tokens / headDim));
  while (heads * headDim < tokens || nearCliff(known, tokens, heads * headDim)) heads += 1;
  return heads;
}
