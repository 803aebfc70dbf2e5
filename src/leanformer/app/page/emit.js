// A design as code or configuration, to paste: leanformer.designing.emit, in the same characters.

function listed(values) {
  return `[${values.join(", ")}]`;
}

function leanformerCall(model, sizes) {
  const schedule = sizes.length > 1 && !model.structural;
  const each = (word, place) => {
    const values = sizes.map((size) => size[place]);
    const single = new Set(values).size === 1 && !(model.structural && word === "depth");
    return `${word}=${single ? values[0] : listed(values)}`;
  };
  const words = schedule
    ? [
        `heads=${listed(sizes.flatMap(([depth, heads]) => Array(depth).fill(heads)))}`,
        each("head_dim", 2),
        each("mlp_dim", 3),
      ]
    : ["depth", "heads", "head_dim", "mlp_dim"].map(each);
  return `import leanformer as lf\n\nmodel = lf.create(${model.python_name}, ${words.join(", ")}${model.python_options})\n`;
}

function timmCall(model, sizes) {
  const [depth, heads, headDim, mlpDim] = sizes[0];
  const width = model.stages[0].width;
  if (sizes.length !== 1 || heads * headDim !== width || mlpDim % width) return leanformerCall(model, sizes);
  const word = model.family === "tnt" ? "num_heads_outer" : "num_heads";
  const given = `depth=${depth}, ${word}=${heads}, mlp_ratio=${mlpDim / width}`;
  return `import timm\n\nmodel = timm.create_model(${model.python_name}, ${given}${model.python_options})\n`;
}

function yaml(model, sizes) {
  const lines = sizes.map(([depth, heads, headDim, mlpDim], place) => {
    const { width } = model.stages[Math.min(place, model.stages.length - 1)];
    return `- {width: ${width}, depth: ${depth}, heads: ${heads}, head_dim: ${headDim}, mlp_dim: ${mlpDim}}\n`;
  });
  return `${model.yaml.head}${lines.join("")}${model.yaml.tail}`;
}

/** What needs no server. A Hugging Face configuration is upstream's own: the server writes it. */
export function emitted(model, sizes, form) {
  if (form === "yaml") return yaml(model, sizes);
  if (form === "timm") return timmCall(model, sizes);
  return leanformerCall(model, sizes);
}

export const FORMS = { timm: "timm", hf: "Hugging Face", leanformer: "leanformer", yaml: "YAML" };
