// Elements, made of plain values. Texts become text nodes, whatever they hold: nothing here reads HTML.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.classList.add(...value.split(" ").filter(Boolean));
    else if (name === "colour") element.classList.add(`c${value}`);
    else if (name === "share") element.style.width = `${value}%`;
    else if (name in element && (name === "value" || name === "checked" || name === "disabled")) element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An element with attributes ("onclick" adds a listener) and children. */
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Text of a file or a folder: kept apart from what is around it, in whatever direction it is written. */
export function name(text, attributes) {
  return h("bdi", { class: "name", title: shortened(text, 300), ...attributes }, shortened(text, 200));
}

export function shortened(text, most) {
  const letters = Array.from(String(text));
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : letters.join("");
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
}

/** Say something to those who do not see the page. */
export function announce(text) {
  document.getElementById("news").textContent = text;
}

/** A table of texts; columns after the first `left` hold numbers. */
export function table(head, rows, { left = 1, caption = "", bold = null } = {}) {
  const side = (place) => (place < left ? null : "number");
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption || "Table" },
    h(
      "table",
      null,
      caption ? h("caption", { class: "unseen" }, caption) : null,
      h("thead", null, h("tr", null, head.map((cell, place) => h("th", { class: side(place), scope: "col" }, cell)))),
      h(
        "tbody",
        null,
        rows.map((row) =>
          h(
            "tr",
            { class: bold !== null && row[0] === bold ? "bold" : null },
            row.map((cell, place) =>
              h("td", { class: side(place) }, typeof cell === "string" ? h("bdi", null, shortened(cell, 200)) : cell),
            ),
          ),
        ),
      ),
    ),
  );
}

/** A part of the page under a heading. */
export function section(title, ...children) {
  return h("section", { class: "card" }, h("h2", null, title), ...children);
}

/** A figure that is drawn again whenever its width changes. */
export function drawn(draw, attributes) {
  const place = h("div", { class: "drawn", ...attributes });
  let width = 0;
  const redraw = () => {
    width = place.clientWidth;
    if (width > 0) replace(place, draw(Math.max(260, width)));
  };
  new ResizeObserver(() => {
    if (Math.abs(place.clientWidth - width) > 1) redraw();
  }).observe(place);
  return place;
}

export function problem(error) {
  return h("p", { class: "problem", role: "alert" }, h("bdi", null, shortened(error.message ?? error, 1000)));
}

export function copyButton(label, text) {
  const button = h("button", { type: "button", class: "quiet" }, label);
  button.addEventListener("click", async () => {
    await copied(await text());
    button.textContent = "Copied";
    announce("Copied");
    setTimeout(() => (button.textContent = label), 1500);
  });
  return button;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A file that was opened from the disk may not use the clipboard: select the text the old way.
    const area = h("textarea", { class: "unseen", value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
