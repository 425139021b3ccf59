/* How good the answers are. headline: [name, share, note]; classes: {title, headings, rows, share (columns in percent)};
   calibration, confusion: see charts.js; mistakes: {of: tokens | nodes | pairs, rows, and of pairs
   told (numbers in words), others [{title, rows}]}. */
kinfolk.kinds.scores = (data, root) => {
  const {el, percent, table} = kinfolk, {reliability, matrix, scrolling, told} = kinfolk.charts;

  const tile = ([name, share, note]) => el("div", {class: "tile"}, el("span", {class: "what"}, name),
    el("span", {class: "big"}, percent(share, 2)), el("span", {class: "note"}, note));

  function classes(given) {
    const shown = (value, column) => (column === 0 ? value : given.share.includes(column) ? percent(value) : told(value));
    const rows = given.rows.map((row) => ({mark: row[0] === "all" ? "best" : null, cells: row.map(shown)}));
    return scrolling(table(given.headings, rows, {number: given.headings.map((_, i) => i).slice(1)}));
  }

  const sentence = (row) => el("div", {}, row.before, " ", el("mark", {}, row.words || "(no words)"), " ", row.after);
  const head = (left, right) => el("div", {class: "head"}, el("span", {}, left), el("span", {}, right));
  const sure = (p) => percent(p) + " sure";

  /* What became of a pair: of one decided wrongly, rightly, or not at all, whether it ended together. */
  function outcome(row) {
    const right = row.clustered === row.together;
    if (row.probability !== null && (row.probability > 0.5) !== row.together) return right ? "; clustering set this right" : "; clustering did not set this right";
    return row.clustered ? ", but other pairs brought them together" : row.probability === null ? ", but no blocking rule brings them together" : ", but the clustering kept them apart";
  }

  const cards = {
    tokens: (row) => [head(row.where, sure(Math.max(...row.labels.map((one) => one[3])))), sentence(row),
      el("div", {class: "said"}, row.labels.map(([word, truth, predicted, p]) =>
        el("div", {}, el("strong", {}, word), " is ", el("span", {class: "good"}, truth), ", predicted ", el("span", {class: "bad"}, predicted), " (" + percent(p) + ")")))],
    nodes: (row) => [head(el("strong", {}, row.node), sure(row.sure)),
      el("div", {class: "said"}, "is ", el("span", {class: "good"}, row.truth), " (given " + percent(row.of_truth) + "), predicted ", el("span", {class: "bad"}, row.predicted))],
    pairs: (row) => [head(row.where || row.names.join(" and "), row.probability === null ? "no candidate pair" : percent(row.probability) + " that they belong together"),
      row.texts ? row.texts.map(sentence) : table(["", ...row.names], row.fields),
      el("div", {class: "said"}, "They ", el("span", {class: "good"}, row.together ? "belong together" : "do not belong together"),
        outcome(row), ".")],
  };

  root.append(el("div", {class: "tiles"}, data.headline.map(tile)));
  root.append(el("h3", {}, data.classes.title), ...classes(data.classes));
  root.append(el("h3", {}, "Can its probabilities be believed?"),
    el("p", {class: "note"}, "Answers are grouped by the probability the model gave them. On the dashed line, of answers given 80 %, 80 % are right. Pink bars: how far a group is from that."),
    el("div", {class: "grid-of-cards"}, data.calibration.map(reliability)));
  root.append(el("h3", {}, "What is taken for what"), el("div", {class: "matrices"}, data.confusion.map(matrix)));
  const {of, rows, told: numbers, others = []} = data.mistakes;
  const list = (some) => el("ol", {class: "mistakes"}, some.map((row) => el("li", {}, cards[of](row))));
  root.append(el("h3", {}, numbers ? "Mistakes" : "The most confident mistakes"));
  if (numbers) root.append(el("p", {class: "counted"}, numbers));
  if (numbers && rows.length) root.append(el("h4", {}, "Candidates decided wrongly, the most confident first"));
  if (rows.length) root.append(list(rows));
  else if (!numbers) root.append(el("p", {class: "note"}, "There are none: every answer is right."));
  for (const kind of others) root.append(el("h4", {}, kind.title + ", a few"), list(kind.rows));
};
