/* How training went. facts: [name, text]; score: what held-out data is scored by; stages: [{name, status, seconds,
   learned (what, in a line), objective [[iterations], [values]], warm [losses], held_out [[iterations], [scores]], best}];
   rounds (of a linker): {metrics, scores [[one a metric] a round], links, best}. */
kinfolk.kinds.training = (data, root) => {
  const {el, percent} = kinfolk, {lines, told} = kinfolk.charts;
  const points = (curve) => (curve.length ? curve[0].map((x, i) => [x, curve[1][i]]) : []);

  function objective(stage) {
    const series = [{name: "objective", points: points(stage.objective), index: 0}];
    // warm-up passes stand before the iterations: the last of them at 0
    if (stage.warm.length) series.push({name: "loss of warm-up passes, without the penalty", dashed: true, index: 1, points: stage.warm.map((y, i) => [i + 1 - stage.warm.length, y])});
    return lines({label: stage.name + ": objective by iteration", series, xName: "iteration", yName: "objective", log: true, kept: stage.best, before: stage.warm.length ? "warm-up" : null,
      xShow: (x) => (x > 0 ? "iteration " + x : "warm-up pass " + (x + stage.warm.length))});
  }

  const heldOut = (stage) => lines({
    label: stage.name + ": held-out score by iteration", series: [{name: data.score || "score", points: points(stage.held_out), index: 2}],
    xName: "iteration", yName: data.score || "score", show: (y) => percent(y, 1), kept: stage.best, xShow: (x) => "iteration " + x});

  function card(stage) {
    const curve = points(stage.objective), last = curve[curve.length - 1], held = stage.held_out.length > 0;
    const best = held ? points(stage.held_out).find((p) => p[0] === stage.best) : null;
    const ended = `${stage.status}${last ? ` after ${told(last[0])} iterations, at ${told(last[1])}` : ""} (${stage.seconds.toFixed(1)} s)`;
    return el("div", {class: "card"}, el("h3", {}, stage.name), stage.learned && el("p", {class: "note learned"}, stage.learned), el("p", {class: "note"}, ended), objective(stage),
      held && [el("h3", {}, "On held-out data"), best && el("p", {class: "note"}, `best: ${percent(best[1], 2)} at iteration ${best[0]}, whose weights were kept`), heldOut(stage)]);
  }

  function rounds(given) {
    const {metrics, scores, links, best} = given;
    const rows = links.map((n, i) => ({mark: i === best ? "best" : null, cells: [
      (i === 0 ? "0 (local)" : i) + (i === best ? " ✓ kept" : ""), told(n), ...metrics.map((_, k) => percent(scores[i][k], 2))]}));
    const curves = metrics.map((name, k) => ({name, points: scores.map((row, i) => [i, row[k]]).filter((p) => p[1] !== null)}));
    const chart = links.length > 1 && curves.length ? lines({label: "scores by round", series: curves, xName: "round", yName: "on the training data",
      show: (y) => percent(y, 1), kept: best, xShow: (x) => (x === 0 ? "round 0, local" : "round " + x)}) : null;
    return el("div", {class: "card"}, el("h3", {}, "Rounds"),
      el("p", {class: "note"}, "Each round learns the decisions that the clustering after it needs. Scores are on the training data, after clustering."),
      kinfolk.table(["round", "pairs to link", ...metrics], rows, {number: metrics.map((_, k) => k + 2).concat(1)}), chart);
  }

  root.append(el("dl", {class: "facts"}, data.facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
  const cards = data.stages.filter((stage) => stage.objective.length || stage.warm.length);
  if (cards.length || data.rounds) {
    root.append(el("p", {class: "note"}, "The objective is what training lowers: the misfit on the training data plus a penalty for large weights. It should fall steeply, then level off."));
    root.append(el("div", {class: "grid-of-cards"}, data.rounds && rounds(data.rounds), cards.map(card)));
  } else {
    root.append(el("p", {class: "note"}, "There are no curves: no iteration was needed, the classifier keeps none, or the model file was written before they were kept."));
  }
};
