/* What items hold and what came of them. tiles: [name, number, note]; columns: [{name, known, n, distinct, top [[value,
   count]], range [least, median, most]}]; probabilities: [[from, to, pairs, expected matches]]; sizes: [[words, clusters, items]]. */
kinfolk.kinds.records = (data, root) => {
  const {el, percent, table, measures} = kinfolk, {told, scrolling} = kinfolk.charts;
  root.append(el("div", {class: "tiles"}, data.tiles.map(([name, number, note]) => el("div", {class: "tile"}, el("span", {class: "what"}, name),
    el("span", {class: "big"}, told(number)), el("span", {class: "note"}, note)))));

  const complete = (one) => {
    const share = one.n ? one.known / one.n : 0;
    return el("span", {}, el("span", {class: "meter"}, el("span", {style: {width: 100 * share + "%"}})), percent(share));
  };
  const values = (one) => el("div", {class: "values"}, one.range ? `from ${told(one.range[0])} to ${told(one.range[2])}, half of them up to ${told(one.range[1])}`
    : one.top.map(([value, count]) => el("span", {}, `${value} (${told(count)})`)));
  const rows = data.columns.map((one) => [one.name, complete(one), told(one.distinct), values(one)]);
  root.append(el("h3", {}, "Columns"), el("div", {class: "column-facts"}, scrolling(table(["column", "there", "distinct", "most frequent values"], rows, {number: [2]}))));
  if (data.more_columns > 0) root.append(el("p", {class: "note"}, `and ${data.more_columns} more columns`));

  const bins = data.probabilities.map(([from, to, pairs, expected]) => ({name: `${percent(from, 0)} to ${percent(to, 0)}`, value: pairs, shown: told(pairs), side: told(Math.round(expected)),
    note: [`${told(pairs)} pairs from ${percent(from, 0)} to ${percent(to, 0)}`, `about ${told(Math.round(expected))} of them are matches, if the probabilities are right`]}));
  const sizes = data.sizes.map(([words, clusters, items]) => ({name: words === "1" ? "1 (alone)" : words, value: clusters, shown: told(clusters), side: told(items),
    note: [`${told(clusters)} clusters of ${words}`, `${told(items)} items in them`]}));
  root.append(el("div", {class: "grid-of-cards"},
    el("div", {class: "card"}, el("h3", {}, "Pairs by probability"), el("p", {class: "note"}, "Lengths by logarithm. On the right: how many of them would be matches, if the probabilities are right."),
      measures(bins, {log: true, label: "pairs by probability"})),
    el("div", {class: "card"}, el("h3", {}, "Clusters by size"), el("p", {class: "note"}, "Lengths by logarithm. On the right: the items in them."), measures(sizes, {log: true, label: "clusters by size"}))));
};
