// How numbers are written: the digits and units of leanformer's tables.

export const NOTHING = "–";
const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** A number back from JSON, which has no infinities. */
export function number(value) {
  if (value === "inf") return Infinity;
  if (value === "-inf") return -Infinity;
  return value === null || value === undefined ? null : Number(value);
}

export function whole(value) {
  return value === null || value === undefined ? NOTHING : value.toLocaleString("en-US");
}

export function significant(given) {
  const value = number(given);
  if (value === null || Number.isNaN(value)) return NOTHING;
  if (!Number.isFinite(value)) return "∞";
  if (value >= 1e5) {
    const [mantissa, exponent] = value.toExponential(1).split("e+");
    return `${mantissa}·10${Array.from(exponent, (digit) => RAISED[Number(digit)]).join("")}`;
  }
  return value >= 100 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(3)));
}

export function parameters(value) {
  if (value === null || value === undefined) return NOTHING;
  const count = Number(value);
  if (count >= 1e9) return `${(count / 1e9).toFixed(2)} G`;
  return count >= 1e6 ? `${(count / 1e6).toFixed(1)} M` : whole(value);
}

export function bytes(value) {
  const count = Number(value);
  if (count >= 1e12) return `${(count / 1e12).toFixed(2)} TB`;
  if (count >= 1e9) return `${(count / 1e9).toFixed(1)} GB`;
  return count >= 1e6 ? `${(count / 1e6).toFixed(1)} MB` : `${(count / 1e3).toFixed(1)} kB`;
}

export function macs(value) {
  const count = Number(value);
  if (count >= 1e12) return `${(count / 1e12).toFixed(2)} T`;
  return count >= 1e9 ? `${(count / 1e9).toFixed(2)} G` : `${(count / 1e6).toFixed(1)} M`;
}

export function percent(share) {
  return Number.isFinite(share) ? `${(100 * share).toFixed(0)} %` : NOTHING;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NOTHING;
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  return seconds < 7200 ? `${(seconds / 60).toFixed(1)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

export function signed(value, places) {
  return value === null || value === undefined ? NOTHING : `${value >= 0 ? "+" : "−"}${Math.abs(value).toFixed(places)}`;
}

export function decimals(unit) {
  return unit === "%" || unit === "points" ? 2 : 3;
}

export function counted(count, word) {
  return `${whole(count)} ${word}${count === 1 ? "" : "s"}`;
}

/** The nearest whole number; of two, the even one. */
export function roundHalfEven(value) {
  const below = Math.floor(value);
  if (value - below !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
}
