/* What a threshold would do. thresholds, pairs (above each), curves {expected, measured: {precision, recall}}, chosen,
   clusterer, labelled (how many pairs measure; null: true clusters do), clusters: [{threshold, clusters, largest, sizes (by group), precision, recall, f1}]. */
kinfolk.kinds.thresholds = (data, root) => {
  const {el, percent, table} = kinfolk, {lines, told, scrolling} = kinfolk.charts;
  const WORDS = ["1", "2", "3", "4", "5 to 9", "10 to 19", "20 to 49", "50 to 99", "100 or more"];
  const whole = (t) => Math.round(1000 * t) / 10;
  const points = (values) => values.map((y, i) => [whole(data.thresholds[i]), y]).filter((p) => p[1] !== null);
  const series = [];
  for (const [kind, name] of [["expected", "expected"], ["measured", "measured"]]) {
    const curve = data.curves[kind];
    if (!curve) continue;
    for (const [k, rate] of ["precision", "recall"].entries()) {
      const found = points(curve[rate]);
      if (found.length) series.push({name: `${rate}, ${name}`, points: found, index: k, dashed: kind === "expected" && !!data.curves.measured});
    }
  }
  const kept = whole(data.chosen);
  const chart = lines({label: "precision and recall of pairs by threshold", series, xName: "threshold, percent", yName: "pairs, before clustering",
    show: (y) => percent(y, 1), kept, xShow: (x) => `pairs above ${x} %`});
  const counts = lines({label: "pairs above the threshold", series: [{name: "pairs above the threshold", points: data.pairs.map((y, i) => [whole(data.thresholds[i]), y]), index: 4}],
    xName: "threshold, percent", yName: "pairs", log: true, kept, xShow: (x) => `above ${x} %`});
  const cards = [chart && el("div", {class: "card"}, el("h3", {}, "Precision and recall of pairs"), chart), counts && el("div", {class: "card"}, el("h3", {}, "Pairs above the threshold"), counts)];

  const scored = data.clusters.filter((one) => one.f1 !== undefined);
  if (scored.length > 1) {
    const of = (rate, index) => ({name: rate === "f1" ? "F1" : rate, index, points: scored.map((one) => [whole(one.threshold), one[rate]]).filter((p) => p[1] !== null)});
    cards.push(el("div", {class: "card"}, el("h3", {}, "Measured after clustering"), lines({label: "pair scores after clustering by threshold",
      series: [of("precision", 0), of("recall", 1), of("f1", 2)], xName: "threshold, percent", yName: "all pairs, after clustering", show: (y) => percent(y, 1), kept, xShow: (x) => `threshold ${x} %`})));
  }
  root.append(el("p", {class: "note"}, data.curves.measured && data.labelled
    ? `Expected rates (dashed) take the probabilities at their word; measured ones are of ${told(data.labelled)} labelled pairs alone, and those that were never compared count as missed.`
    : data.curves.measured ? "Expected rates (dashed) take the probabilities at their word; measured ones use the true clusters, and pairs that were never compared count as missed. Where the two lie apart, the probabilities are off."
    : "Rates are expected ones: they take the probabilities at their word, and know nothing of pairs that were never compared. With true clusters there would be measured ones beside them."));
  root.append(el("div", {class: "grid-of-cards"}, cards));
  const groups = Math.max(...data.clusters.map((one) => one.sizes.length), 0);
  const rows = data.clusters.map((one) => ({mark: one.threshold === data.chosen ? "best" : null, cells: [
    whole(one.threshold) + " %" + (one.threshold === data.chosen ? " ✓" : ""), told(one.clusters), told(one.largest),
    ...WORDS.slice(0, groups).map((_, k) => (one.sizes[k] ? told(one.sizes[k]) : "·"))]}));
  root.append(el("h3", {}, "Clusters by size"), el("p", {class: "note"}, `The same probabilities clustered by ${data.clusterer} at other thresholds; the model's own is marked.`),
    ...scrolling(table(["threshold", "clusters", "largest", ...WORDS.slice(0, groups).map((w) => "of " + w)], rows, {number: Array.from({length: groups + 2}, (_, k) => k + 1)})));
};
