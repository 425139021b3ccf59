/* Charts: lines over iterations, a reliability diagram, a matrix of counts. All show their values under the pointer. */
kinfolk.charts = (() => {
  const {el, svg, percent, tooltip, coloured} = kinfolk;
  const WIDTH = 380, HEIGHT = 230, LEFT = 64, RIGHT = 12, TOP = 10, BOTTOM = 38;

  /* A number as people write it: 12,345 or 0.0123. */
  function told(x) {
    if (x === null || x === undefined) return "–";
    if (Number.isInteger(x) || Math.abs(x) >= 1000) return Math.round(x).toLocaleString("en");
    return String(Number(x.toPrecision(4)));
  }

  /* About `most` round values between two ends. */
  function ticks(low, high, most) {
    const raw = (high - low) / most, power = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw * 0.999);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
    return found;
  }

  function logTicks(low, high) {
    const found = [];
    for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++) {
      for (const k of [1, 2, 5]) if (k * 10 ** p >= low * 0.999 && k * 10 ** p <= high * 1.001) found.push(k * 10 ** p);
    }
    return found.length > 7 ? found.filter((x) => Number.isInteger(Math.round(1e6 * Math.log10(x)) / 1e6)) : found;
  }

  const linear = (low, high, from, to) => (x) => from + ((x - low) / (high - low || 1)) * (to - from);
  const logarithmic = (low, high, from, to) => {
    const scale = linear(Math.log(low), Math.log(high), from, to);
    return (x) => scale(Math.log(x));
  };

  /* The frame of a chart: axes with ticks and names. `x` and `y`: {at, ticks, name, show}. */
  function frame(label, x, y, height = HEIGHT) {
    const bottom = height - BOTTOM;
    return svg("svg", {class: "chart", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label},
      y.ticks.map((t) => [
        svg("line", {class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y.at(t), y2: y.at(t)}),
        svg("text", {class: "soft", x: LEFT - 6, y: y.at(t) + 4, "text-anchor": "end"}, y.show(t)),
      ]),
      x.ticks.map((t) => [
        svg("line", {class: "axis", x1: x.at(t), x2: x.at(t), y1: bottom, y2: bottom + 4}),
        svg("text", {class: "soft", x: x.at(t), y: bottom + 17, "text-anchor": "middle"}, x.show(t)),
      ]),
      svg("line", {class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: bottom, y2: bottom}),
      svg("text", {class: "soft name", x: (LEFT + WIDTH - RIGHT) / 2, y: height - 4, "text-anchor": "middle"}, x.name),
      svg("text", {class: "soft name", x: 11, y: (TOP + bottom) / 2, "text-anchor": "middle",
        transform: `rotate(-90 11 ${(TOP + bottom) / 2})`}, y.name));
  }

  const line = (points, x, y, attributes) =>
    svg("polyline", {points: points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" "), ...attributes});

  /* options: label, series [{name, points [[x, y]], dashed, index}], xName, yName, log, show (of y), xShow, kept (an x), before (what stands left of 1,
     in a word, in the place of its numbers). */
  function lines(options) {
    const all = options.series.flatMap((s) => s.points);
    if (!all.length) return null;
    const xs = all.map((p) => p[0]), ys = all.map((p) => p[1]);
    let [x0, x1] = [Math.min(...xs), Math.max(...xs)], [y0, y1] = [Math.min(...ys), Math.max(...ys)];
    if (x0 === x1) { x0 -= 1; x1 += 1; }
    const log = options.log && y0 > 0 && y1 / y0 > 8;
    if (!log) { const room = (y1 - y0) * 0.06 || Math.abs(y1) * 0.01 || 1; y0 -= room; y1 += room; }
    const show = options.show || told, xShow = options.xShow || told;
    const x = linear(x0, x1, LEFT + 4, WIDTH - RIGHT - 4);
    const y = (log ? logarithmic : linear)(y0, y1, HEIGHT - BOTTOM - 4, TOP + 4);
    const whole = ticks(x0, x1, 6).filter((t) => Number.isInteger(t) && (!options.before || (t > 0 && x(t) > LEFT + 60)));
    const picture = frame(options.label, {at: x, ticks: whole, name: options.xName, show: told},
      {at: y, ticks: log ? logTicks(y0, y1) : ticks(y0, y1, 5), name: options.yName + (log ? " (log scale)" : ""), show});
    if (options.before && x0 < 1) picture.append(
      svg("rect", {class: "before", x: LEFT, y: TOP, width: Math.max(0, x(Math.min(0.5, x1)) - LEFT), height: HEIGHT - BOTTOM - TOP}),
      svg("text", {class: "soft", x: LEFT, y: HEIGHT - BOTTOM + 17}, options.before));
    if (options.kept !== null && options.kept !== undefined) {
      picture.append(svg("line", {class: "kept", x1: x(options.kept), x2: x(options.kept), y1: TOP, y2: HEIGHT - BOTTOM}));
    }
    options.series.forEach((s, i) => {
      const vars = coloured(s.index === undefined ? i : s.index);
      picture.append(line(s.points, x, y, {class: "curve" + (s.dashed ? " dashed" : ""), vars}));
      if (s.points.length < 40) for (const [a, b] of s.points) picture.append(svg("circle", {class: "dot", cx: x(a), cy: y(b), r: 2.2, vars}));
    });
    picture.append(...cursor(options, picture, x, y, [...new Set(xs)].sort((a, b) => a - b), show, xShow));
    return el("figure", {class: "chart-box"}, picture, options.series.length > 1 && legend(options.series));
  }

  /* A line that jumps to the nearest point under the pointer and tells its values. */
  function cursor(options, picture, x, y, xs, show, xShow) {
    const rule = svg("line", {class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden"});
    const field = svg("rect", {class: "field", x: LEFT, y: 0, width: WIDTH - LEFT, height: HEIGHT - BOTTOM});
    let here = xs[0];
    const move = (event) => {
      const box = picture.getBoundingClientRect();
      const at = ((event.clientX - box.left) / box.width) * WIDTH;
      here = xs.reduce((best, one) => (Math.abs(x(one) - at) < Math.abs(x(best) - at) ? one : best), xs[0]);
      for (const side of ["x1", "x2"]) rule.setAttribute(side, x(here));
      rule.setAttribute("visibility", "visible");
    };
    field.addEventListener("pointermove", move);
    field.addEventListener("pointerdown", move);
    field.addEventListener("pointerleave", () => rule.setAttribute("visibility", "hidden"));
    tooltip(field, () => el("div", {}, el("strong", {}, xShow(here)),
      options.series.map((s) => [s, s.points.find((p) => p[0] === here)]).filter(([, p]) => p).map(([s, p]) =>
        el("div", {}, s.name + ": " + show(p[1]))),
      here === options.kept && el("div", {class: "good"}, "the one that was kept")));
    return [rule, field];
  }

  function legend(series) {
    return el("figcaption", {class: "legend"}, series.map((s, i) =>
      el("span", {class: s.dashed ? "key dashed" : "key", vars: coloured(s.index === undefined ? i : s.index)}, s.name)));
  }

  /* data: lowest, highest, predicted, observed, counts (a bin each), error, brier, title, what, right (what came true). */
  function reliability(data) {
    const all = [...data.predicted, ...data.observed];
    if (!all.length) return el("div", {class: "card"}, el("h3", {}, data.title), el("p", {class: "note"}, `There was nothing to compare: there are no answers of this kind (${data.what}).`));
    let low = Math.min(0.9, Math.floor(10 * Math.min(...all)) / 10), high = Math.max(0.1, Math.ceil(10 * Math.max(...all)) / 10);
    if (low <= 0.3) low = 0;
    if (high >= 0.7) high = 1;
    const height = 300, x = linear(low, high, LEFT + 4, WIDTH - RIGHT - 4), y = linear(low, high, height - BOTTOM - 4, TOP + 4);
    const show = (p) => percent(p, 0), marks = ticks(low, high, 5);
    const picture = frame(data.title + ": how sure against how often right",
      {at: x, ticks: marks, name: "probability the model gave", show}, {at: y, ticks: marks, name: "share that " + (data.right || "was right"), show}, height);
    picture.append(svg("line", {class: "diagonal", x1: x(low), y1: y(low), x2: x(high), y2: y(high)}));
    const points = data.predicted.map((p, i) => [p, data.observed[i]]);
    points.forEach(([p, o]) => picture.append(svg("line", {class: "gap", x1: x(p), x2: x(p), y1: y(p), y2: y(o)})));
    picture.append(line(points, x, y, {class: "curve", vars: coloured(0)}));
    points.forEach(([p, o], i) => {
      const spot = svg("g", {class: "spot", vars: coloured(0)},
        svg("circle", {class: "dot", cx: x(p), cy: y(o), r: 4}), svg("circle", {class: "field", cx: x(p), cy: y(o), r: 11}));
      tooltip(spot, () => el("div", {}, el("strong", {}, told(data.counts[i]) + " answers"),
        el("div", {}, `given ${percent(data.lowest[i])} to ${percent(data.highest[i])}, on average ${percent(p)}`),
        el("div", {}, `${data.right || "right"}: ${percent(o)}`)));
      picture.append(spot);
    });
    return el("div", {class: "card"}, el("h3", {}, data.title), el("figure", {class: "chart-box"}, picture),
      el("p", {class: "note"}, verdict(data)), numbers(data));
  }

  const ENOUGH = 100; // answers from which on a mean difference is more than chance

  function verdict(data) {
    const n = data.counts.reduce((a, b) => a + b, 0);
    const mean = (values) => values.reduce((sum, v, i) => sum + v * data.counts[i], 0) / n;
    const over = mean(data.predicted) - mean(data.observed);
    const lean = n < ENOUGH ? `${told(n)} are too few to tell whether its probabilities are too high or too low.`
      : Math.abs(over) < 0.005 ? "Its probabilities are neither too high nor too low on the whole."
      : over > 0 ? "Its probabilities are too high on the whole (points lie below the line)." : "Its probabilities are too low on the whole (points lie above the line).";
    return `For ${data.what}, ${told(n)} in all, a probability is off by ${(100 * data.error).toFixed(1)} percentage points on average `
      + `(expected calibration error). ${lean} Brier score ${told(data.brier)}; 0 is perfect.`;
  }

  const numbers = (data) => el("details", {}, el("summary", {}, "Numbers"), kinfolk.table(
    ["given", "on average", data.right || "right", "answers"],
    data.counts.map((n, i) => [percent(data.lowest[i]) + " to " + percent(data.highest[i]), percent(data.predicted[i]), percent(data.observed[i]), told(n)]),
    {number: [1, 2, 3]}));

  /* data: labels, counts (rows: truth, columns: prediction), title, what. Colours are shares of a row. */
  function matrix(data) {
    const sums = data.counts.map((row) => row.reduce((a, b) => a + b, 0));
    const cell = (n, i, j) => {
      const share = sums[i] ? n / sums[i] : 0;
      const node = el("td", {class: "cell " + (i === j ? "right" : "wrong") + (n ? "" : " none"),
        vars: {"--share": share ? (0.12 + 0.88 * share).toFixed(3) : 0}}, n ? told(n) : "·");
      tooltip(node, () => el("div", {}, el("strong", {}, told(n) + " of " + told(sums[i])), el("div", {}, `truth: ${data.labels[i]}`),
        el("div", {}, `predicted: ${data.labels[j]}`), el("div", {}, percent(share) + " of the row")));
      return node;
    };
    const named = (tag, name) => { const node = el("span", {class: "label"}, name); node.title = name; return el(tag, {scope: tag === "th" ? "col" : null}, node); };
    return el("div", {class: "card"}, el("h3", {}, data.title), el("p", {class: "note"}, data.what + " Rows are the truth, columns the prediction."),
      scrolling(el("div", {class: "scroll", tabindex: 0, role: "group", "aria-label": data.title}, el("table", {class: "matrix"},
        el("thead", {}, el("tr", {}, el("th", {class: "corner"}, el("span", {}, "truth ↓ "), el("span", {}, "predicted →")), data.labels.map((name) => named("th", name)))),
        el("tbody", {}, data.counts.map((row, i) => el("tr", {}, named("th", data.labels[i]), row.map((n, j) => cell(n, i, j)))))))));
  }

  /* A box that scrolls sideways, and a line that says so where it does. */
  function scrolling(box) {
    const told = el("p", {class: "note more"}, "Scroll sideways for more columns →");
    new ResizeObserver(() => { told.hidden = box.scrollWidth <= box.clientWidth + 1; }).observe(box);
    return [box, told];
  }

  return {lines, reliability, matrix, scrolling, told};
})();
