// Small charts in SVG: lines with bands and dots, intervals, and points to choose from.

import { h, shortened, svg } from "./dom.js";
import { significant } from "./formats.js";

const MARGIN = { left: 70, right: 14, top: 12, bottom: 40 };

function ticksOf(low, high, log, most) {
  if (log) {
    const powers = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high) + 1e-9; power += 1) powers.push(10 ** power);
    const inside = (value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9);
    const whole = powers.filter(inside);
    if (whole.length > 2) return whole.filter((_, place) => place % Math.ceil(whole.length / most) === 0);
    const finer = powers.flatMap((power) => [power, 2 * power, 5 * power]).filter(inside);
    if (finer.length > 1) return finer;
  }
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? power;
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step) {
    found.push(Math.abs(value) < step * 1e-9 ? 0 : value);
  }
  return found;
}

function tickText(value, log) {
  if (log) return significant(value);
  if (value !== 0 && Math.abs(value) >= 1e5) return value.toLocaleString("en-US", { notation: "compact" });
  return Number(value.toPrecision(6)).toLocaleString("en-US").replace("-", "−");
}

/** A scale from data to pixels; infinite values lie at the edge. */
function scaleOf(values, { log = false, from = null, to = null, pad = 0.04 } = {}, start, end) {
  const usable = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  let low = from ?? Math.min(...usable);
  let high = to ?? Math.max(...usable);
  if (!usable.length && (from === null || to === null)) [low, high] = [log ? 1 : 0, log ? 10 : 1];
  const move = log ? Math.log10 : (value) => value;
  let [first, last] = [move(low), move(high)];
  if (first === last) [first, last] = [first - 0.5, last + 0.5];
  const room = (last - first) * pad;
  if (from === null) first -= room;
  if (to === null) last += room;
  const back = log ? (value) => 10 ** value : (value) => value;
  const at = (value) => {
    const moved = Number.isFinite(value) && (!log || value > 0) ? move(value) : value > 0 ? last : first;
    return start + ((moved - first) / (last - first)) * (end - start);
  };
  return { at, log, low: back(first), high: back(last) };
}

function axes(x, y, width, height, labels) {
  const right = width - MARGIN.right;
  const bottom = height - MARGIN.bottom;
  const across = labels.xTicks ?? ticksOf(x.low, x.high, x.log, Math.max(3, Math.floor(width / 90)));
  const up = ticksOf(y.low, y.high, y.log, 5);
  return [
    up.map((value) => svg("line", { class: "grid", x1: MARGIN.left, x2: right, y1: y.at(value), y2: y.at(value) })),
    svg("line", { class: "axis", x1: MARGIN.left, x2: right, y1: bottom, y2: bottom }),
    across.map((value) =>
      svg("text", { class: "tick", x: x.at(value), y: bottom + 15, "text-anchor": "middle" }, labels.xText?.(value) ?? tickText(value, x.log)),
    ),
    up.map((value) => svg("text", { class: "tick", x: MARGIN.left - 7, y: y.at(value) + 4, "text-anchor": "end" }, tickText(value, y.log))),
    svg("text", { class: "label", x: (MARGIN.left + right) / 2, y: height - 4, "text-anchor": "middle" }, labels.x),
    svg("text", { class: "label", transform: `translate(13 ${(MARGIN.top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, labels.y),
  ];
}

function lineOf(points, x, y) {
  return points.map((point, place) => `${place ? "L" : "M"}${x.at(point.x).toFixed(1)} ${y.at(point.y).toFixed(1)}`).join("");
}

function bandOf(points, x, y) {
  const there = points.map((point) => `${x.at(point.x).toFixed(1)} ${y.at(point.high).toFixed(1)}`);
  const back = points.map((point) => `${x.at(point.x).toFixed(1)} ${y.at(point.low).toFixed(1)}`).reverse();
  return `M${[...there, ...back].join("L")}Z`;
}

function dotOf(point, one, x, y) {
  const words = point.words ?? `${one.name}: ${significant(point.x)}, ${significant(point.y)}`;
  return svg("circle", { class: "dot", cx: x.at(point.x), cy: y.at(point.y), r: one.radius ?? 3 }, svg("title", null, shortened(words, 200)));
}

function seriesOf(one, x, y) {
  const points = one.points.filter((point) => point.y !== null && !Number.isNaN(point.y));
  const banded = points.filter((point) => point.low !== undefined && point.low !== null);
  return svg(
    "g",
    { colour: one.colour, class: one.thin ? "thin" : null },
    banded.length > 1 && one.band ? svg("path", { class: "band", d: bandOf(banded, x, y) }) : null,
    one.line === false ? null : svg("path", { class: one.dashed ? "line dashed" : "line", d: lineOf(points, x, y) }),
    one.whiskers
      ? banded.map((point) => svg("line", { class: "whisker", x1: x.at(point.x), x2: x.at(point.x), y1: y.at(point.low), y2: y.at(point.high) }))
      : null,
    one.dots ? points.map((point) => dotOf(point, one, x, y)) : null,
  );
}

export function legend(entries) {
  const seen = new Map(entries.filter((one) => !one.unlisted).map((one) => [one.name, one]));
  return h(
    "ul",
    { class: "legend" },
    Array.from(seen.values(), (one) =>
      h("li", { colour: one.colour }, h("span", { class: one.dashed ? "key dashed" : "key", "aria-hidden": "true" }), h("bdi", null, shortened(one.name, 60))),
    ),
  );
}

/** Lines over one axis. `marks` are vertical lines with a word. */
export function lines({ width, height = 280, series, x: across, y: up, marks = [], label }) {
  const all = series.flatMap((one) => one.points);
  const xs = [...all.map((point) => point.x), ...marks.map((mark) => mark.x)];
  const ys = all.flatMap((point) => [point.y, point.low ?? point.y, point.high ?? point.y]).filter((value) => value !== null);
  const x = scaleOf(xs, across, MARGIN.left, width - MARGIN.right);
  const y = scaleOf(ys, up, height - MARGIN.bottom, MARGIN.top);
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    axes(x, y, width, height, { x: across.label, y: up.label, xTicks: across.ticks, xText: across.text }),
    marks.map((mark) => [
      svg("line", { class: "mark", x1: x.at(mark.x), x2: x.at(mark.x), y1: MARGIN.top, y2: height - MARGIN.bottom }),
      svg("text", { class: "mark", x: x.at(mark.x) + 5, y: MARGIN.top + 10 }, mark.words),
    ]),
    series.map((one) => seriesOf(one, x, y)),
  );
  return h("figure", null, picture, new Set(series.map((one) => one.name)).size > 1 ? legend(series) : null);
}

/** Numbers with their intervals, one under the other: each with its limit if it states one (null: none), else around zero and the margin. */
export function intervals({ width, rows, unit, label }) {
  const height = 46 + 40 * rows.length;
  const around = rows.some((row) => row.limit !== undefined) ? [] : [0];
  const values = rows.flatMap((row) => [row.mean, row.low, row.high, row.limit, row.margin ? -row.margin : null, ...around]).filter((value) => value !== null && value !== undefined);
  const left = 14;
  const x = scaleOf(values, { pad: 0.08 }, left, width - MARGIN.right);
  const bottom = height - 34;
  const margin = rows.find((row) => row.margin)?.margin ?? null;
  const ticks = ticksOf(x.low, x.high, false, Math.max(3, Math.floor(width / 90)));
  return h(
    "figure",
    null,
    svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
      margin === null ? null : svg("rect", { class: "within", x: x.at(-margin), y: 4, width: Math.max(0, x.at(margin) - x.at(-margin)), height: bottom - 4 }),
      around.map((zero) => svg("line", { class: "mark", x1: x.at(zero), x2: x.at(zero), y1: 4, y2: bottom })),
      rows.map((row, place) => {
        const y = 32 + 40 * place;
        return svg(
          "g",
          { colour: row.colour ?? 0 },
          svg("text", { class: "name", x: left, y: y - 10 }, shortened(row.title, Math.floor(width / 8))),
          typeof row.limit === "number" ? svg("line", { class: "mark", x1: x.at(row.limit), x2: x.at(row.limit), y1: y - 7, y2: y + 13 }) : null,
          row.low === null ? null : svg("line", { class: "interval", x1: x.at(row.low), x2: x.at(row.high), y1: y + 3, y2: y + 3 }),
          svg("circle", { class: "dot", cx: x.at(row.mean), cy: y + 3, r: 4.5 }, svg("title", null, row.words)),
        );
      }),
      ticks.map((value) => svg("text", { class: "tick", x: x.at(value), y: bottom + 14, "text-anchor": "middle" }, tickText(value, false))),
      svg("text", { class: "label", x: width / 2, y: height - 3, "text-anchor": "middle" }, unit),
    ),
  );
}

/** Points to choose from: a cloud behind, and those of the front, which can be clicked. */
export function points({ width, height = 320, cloud, chosen, x: across, y: up, label, choose }) {
  const all = [...cloud, ...chosen];
  const x = scaleOf(all.map((point) => point.x), across, MARGIN.left, width - MARGIN.right);
  const y = scaleOf(all.map((point) => point.y), up, height - MARGIN.bottom, MARGIN.top);
  const clicked = (event) => {
    const box = picture.getBoundingClientRect();
    const place = [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height];
    const near = chosen
      .filter((point) => point.value)
      .map((point) => [Math.hypot(x.at(point.x) - place[0], y.at(point.y) - place[1]), point])
      .sort((a, b) => a[0] - b[0])[0];
    if (near && near[0] < 24) choose(near[1].value);
  };
  const cloudPath = cloud.map((point) => `M${x.at(point.x).toFixed(1)} ${y.at(point.y).toFixed(1)}h0`).join("");
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label, class: "choose", onclick: clicked },
    axes(x, y, width, height, { x: across.label, y: up.label }),
    svg("path", { class: "cloud", d: cloudPath }),
    chosen.map((point) =>
      svg(
        "circle",
        { class: `dot ${point.kind}`, colour: point.colour, cx: x.at(point.x), cy: y.at(point.y), r: point.radius ?? 4 },
        svg("title", null, point.words),
      ),
    ),
  );
  return picture;
}
