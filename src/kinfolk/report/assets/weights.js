/* Match weights. comparisons: [{name, levels [[level, difference, weight, share of training pairs]], more}]; base: the
   log-odds of an average training pair; more: comparisons that are not shown; conjunctions: how many there are. */
kinfolk.kinds.weights = (data, root) => {
  const {el, signed, percent, measures} = kinfolk;
  const all = data.comparisons.flatMap((one) => one.levels.filter((level) => level[3] > 0).map((level) => Math.abs(level[1])));
  const most = Math.max(...all, 1e-9);

  function card(one) {
    const rows = one.levels.map(([level, difference, weight, share]) => ({
      name: level, value: difference, shown: signed(difference), side: percent(share, share < 0.1 ? 2 : 1), mark: share > 0 ? null : "rare",
      note: [`${one.name}: ${level}`, `moves a pair by ${signed(difference)} from the average`, `weight ${signed(weight)}`,
        share > 0 ? `${percent(share, 2)} of the training pairs have it` : "no training pair had it"]}));
    return el("div", {class: "card comparison"}, el("h3", {}, el("span", {}, one.name)), measures(rows, {most, two: true, label: one.name}),
      one.more > 0 && el("p", {class: "note"}, `and ${one.more} more levels`));
  }

  root.append(el("p", {class: "note"}, `A pair starts at ${signed(data.base)} log-odds, the mean of the pairs trained on. Every comparison moves it by the bar of the level it has: `
    + "green towards a match, red away from it. On the right: how many of the training pairs have the level. All bars have one scale; comparisons that can move a pair most come first."));
  root.append(el("div", {class: "grid-of-cards"}, data.comparisons.map(card)));
  if (data.more > 0) root.append(el("p", {class: "note"}, `${data.more} more comparisons move pairs less and are not shown.`));
  if (data.conjunctions > 0) root.append(el("p", {class: "note"}, `${data.conjunctions} conjunctions of comparisons have weights of their own, which are not drawn.`));
};
