/* Rows of bars: a name, a bar, what it says. rows: [{name, value, shown, note, mark}]; options: log (lengths by
   logarithm), most (the value of a full bar), head (words above). Values may be negative: bars then start in the middle. */
kinfolk.measures = (rows, options = {}) => {
  const {el, tooltip} = kinfolk;
  const size = (x) => (options.log ? Math.log1p(Math.abs(x)) : Math.abs(x));
  const most = options.most ? size(options.most) : Math.max(...rows.map((row) => size(row.value)), 1e-12);
  const two = rows.some((row) => row.value < 0) || options.two;
  const fill = (x) => {
    const share = Math.min(1, size(x) / most) * (two ? 50 : 100);
    const left = !two ? 0 : x < 0 ? 50 - share : 50;
    return el("span", {class: "measure-fill" + (x < 0 ? " negative" : ""), style: {left: left + "%", width: share + "%"}});
  };
  return el("div", {class: "measures" + (two ? " two" : ""), role: "table", "aria-label": options.label || ""}, rows.map((row) => {
    const line = el("div", {class: "measure" + (row.mark ? " " + row.mark : ""), role: "row"},
      el("span", {class: "measure-name", role: "cell", title: row.name}, row.name),
      el("span", {class: "measure-track", role: "cell"}, fill(row.value)),
      el("span", {class: "measure-value", role: "cell"}, row.shown),
      row.side === undefined ? null : el("span", {class: "measure-side", role: "cell"}, row.side));
    if (row.note) tooltip(line, () => el("div", {}, row.note.map((text, i) => el(i ? "div" : "strong", {}, text))));
    return line;
  }));
};
