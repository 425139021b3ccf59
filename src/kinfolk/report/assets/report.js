"use strict";
/* What every part of a report is drawn with. Text from the data only ever becomes a text node. */
const kinfolk = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const kinds = {};

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (name === "style") Object.assign(node.style, value); // by property: attributes of style are forbidden here
      else if (name === "vars") for (const [key, one] of Object.entries(value)) node.style.setProperty(key, one);
      else node.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children.flat(Infinity)) {
      if (child === null || child === undefined || child === false) continue;
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
    return node;
  }

  /* el("p", {class: "note"}, "text", node, ...) */
  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  const percent = (p, digits = 1) => (p === null ? "–" : (100 * p).toFixed(digits) + " %");
  const signed = (x, digits = 2) => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(digits);
  const clear = (node) => node.replaceChildren();

  /* Colours of classes: as many as are told apart by eye, then by turns. The same name has the same colour in a part. */
  const HUES = [212, 28, 142, 350, 275, 180, 55, 310, 100, 240];
  const hue = (index) => HUES[index % HUES.length];
  const coloured = (index) => ({"--hue": hue(index)});

  /* A distribution as bars, the largest first; tiny ones are left out. options: most, vars(i) for colours. */
  function bars(names, values, options = {}) {
    const order = names.map((_, i) => i).sort((a, b) => values[b] - values[a]);
    const shown = order.slice(0, options.most || 6).filter((i, rank) => rank < 2 || values[i] >= 0.0005);
    return el("div", {class: "bars"}, shown.map((i) =>
      el("div", {class: "bar", vars: options.vars ? options.vars(i) : coloured(i)},
        el("span", {class: "bar-name"}, names[i]),
        el("span", {class: "bar-track"}, el("span", {class: "bar-fill", style: {width: 100 * values[i] + "%"}})),
        el("span", {class: "bar-value"}, percent(values[i])))));
  }

  /* A box that follows the pointer; `fillIn(event)` returns its content, or null where there is nothing to say. */
  let tip = null;
  function tooltip(target, fillIn) {
    const show = (event) => {
      const content = fillIn(event), x = event.clientX, y = event.clientY;
      if (!content) return tip && (tip.hidden = true);
      tip = tip || document.body.appendChild(el("div", {class: "tip", role: "tooltip"}));
      tip.replaceChildren(content);
      tip.hidden = false;
      const box = tip.getBoundingClientRect();
      tip.style.left = Math.max(4, Math.min(x + 12, innerWidth - box.width - 8)) + "px";
      tip.style.top = Math.max(4, y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18) + "px";
    };
    target.addEventListener("pointermove", (event) => event.pointerType !== "touch" && show(event));
    target.addEventListener("pointerleave", () => tip && (tip.hidden = true));
  }

  /* Something that can be clicked, also by the keyboard. */
  function pressable(node, act) {
    node.setAttribute("tabindex", "0");
    node.setAttribute("role", "button");
    node.addEventListener("click", act);
    node.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(event); }
    });
    return node;
  }

  function table(headings, rows, options = {}) {
    const number = options.number || [];
    const cell = (tag, content, column) => el(tag, {class: number.includes(column) ? "number" : null}, content);
    return el("div", {class: "scroll"}, el("table", {},
      el("thead", {}, el("tr", {}, headings.map((h, i) => cell("th", h, i)))),
      el("tbody", {}, rows.map((row) => el("tr", {class: row.mark}, (row.cells || row).map((c, i) => cell("td", c, i)))))));
  }

  function draw() {
    const given = JSON.parse(document.getElementById("data").textContent);
    const root = document.getElementById("report");
    root.append(el("header", {}, el("h1", {}, given.title), given.about && el("p", {class: "about"}, given.about)));
    if (given.parts.length > 2) {
      root.append(el("nav", {}, given.parts.map((part, i) => el("a", {href: "#part-" + i}, part.title))));
    }
    given.parts.forEach((part, i) => {
      const section = root.appendChild(el("section", {id: "part-" + i, class: "part part-" + part.kind}, el("h2", {}, part.title)));
      kinds[part.kind](part.data, section);
    });
    root.append(el("footer", {}, "Made by kinfolk. This file is complete: nothing is loaded from elsewhere."));
    document.documentElement.dataset.drawn = "yes"; // for whoever waits
  }

  return {kinds, el, svg, percent, signed, clear, hue, coloured, bars, tooltip, pressable, table, draw};
})();
