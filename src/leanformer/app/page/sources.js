// Where the page's data come from: its server, or what an exported page carries.

export const START = JSON.parse(document.getElementById("start").textContent);

export async function ask(path, asked = {}) {
  const answer = await fetch(`${path}?${new URLSearchParams(asked)}`, { headers: { Accept: "application/json" } });
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error ?? `the server answered ${answer.status}`);
  return value;
}

const asking = new Map();

/** Ask once; a failed request may be repeated. */
function once(key, request) {
  if (!asking.has(key)) {
    asking.set(
      key,
      request().catch((error) => {
        asking.delete(key);
        throw error;
      }),
    );
  }
  return asking.get(key);
}

export async function modelOf(name) {
  if (START.static !== null) {
    if (!Object.hasOwn(START.static, name)) throw new Error("this page does not hold that model");
    return START.static[name].model;
  }
  return once(`model ${name}`, () => ask("/api/model", { model: name }));
}

/** Coefficients depend on these settings; batch and optimizer are the page's own arithmetic. */
export async function formulaOf(name, { precision, attention, checkpointing, tokens }) {
  const key = [precision, attention, checkpointing].join("|");
  if (START.static !== null) return START.static[name].formulas[key];
  const asked = { model: name, precision, attention, checkpointing: String(checkpointing) };
  if (tokens) asked.tokens = String(tokens);
  return once(`formula ${name} ${key} ${tokens ?? ""}`, () => ask("/api/formula", asked));
}
