/* How far each blocking rule goes. rules: [{rule, pairs, true}], the last being all of them; possible: pairs without
   blocking; matches: true pairs there are, null where they are not known. */
kinfolk.kinds.blocking = (data, root) => {
  const {el, percent, measures} = kinfolk, {told} = kinfolk.charts;
  const share = (part, whole) => (whole ? part / whole : 0);
  const mark = (k) => (k === data.rules.length - 1 ? "best" : null);
  const pairs = data.rules.map((one, k) => ({name: one.rule, value: one.pairs, shown: told(one.pairs), side: percent(share(one.pairs, data.possible), 2), mark: mark(k),
    note: [one.rule, `${told(one.pairs)} of ${told(data.possible)} possible pairs`]}));
  const cards = [el("div", {class: "card"}, el("h3", {}, "Pairs brought together"), el("p", {class: "note"}, "Lengths by logarithm; on the right the share of all possible pairs."),
    measures(pairs, {log: true, label: "pairs by rule"}))];
  if (data.matches !== null) {
    const kept = data.rules.map((one, k) => ({name: one.rule, value: share(one.true, data.matches), shown: percent(share(one.true, data.matches)), side: told(one.true), mark: mark(k),
      note: [one.rule, `${told(one.true)} of ${told(data.matches)} true pairs`]}));
    cards.push(el("div", {class: "card"}, el("h3", {}, "True pairs kept"), el("p", {class: "note"}, "What no rule brings together can only be found through other records of its cluster."),
      measures(kept, {most: 1, label: "true pairs by rule"})));
  }
  root.append(el("div", {class: "grid-of-cards"}, cards));
};
