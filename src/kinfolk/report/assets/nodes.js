/* A node and its neighbours. data: classes, levels (names), notes (of levels), relations, lead (sentences), label;
   nodes (the first is the one in question): name, title (or ""), proba [level][class], known, truth, features, around, ties, links;
   aggregates [level], shares (mixture of parents), rest (neighbours that are not drawn). */
kinfolk.kinds.nodes = (data, root) => {
  const {el, svg, percent, signed, bars, tooltip, pressable, coloured, clear} = kinfolk;
  const {classes, levels, nodes} = data;
  const state = {level: levels.length - 1, selected: 0};
  const best = (p) => p.reduce((top, value, i) => (value > p[top] ? i : top), 0);
  const short = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

  /* Colours go to the classes that are seen most here, so that few share one. */
  const mass = classes.map((_, c) => nodes.reduce((sum, n) => sum + n.proba.reduce((s, p) => s + p[c], 0), 0));
  const rank = [];
  classes.map((_, c) => c).sort((a, b) => mass[b] - mass[a] || a - b).forEach((c, place) => { rank[c] = place; });
  const colour = (c) => coloured(rank[c]);
  const byName = (name) => classes.indexOf(name);
  const chip = (c, p) => el("span", {class: "chip", vars: colour(c)}, classes[c], p === undefined ? null : " " + percent(p));
  const namedChip = (name, ...more) => {
    const c = byName(name);
    return el("span", {class: c < 0 ? "plain-chip" : "chip", vars: c < 0 ? {} : colour(c)}, name, ...more);
  };
  const titled = (node) => node.title && el("p", {class: "node-title"}, node.title);
  const distribution = (p, most = 6) => bars(classes, p, {vars: (i) => kinfolk.coloured(rank[i]), most});

  /* -- the drawing ------------------------------------------------------------------------------------ */
  const around = nodes.slice(1).map((_, i) => i + 1); // placed by relation, then by what they are thought to be
  const last = levels.length - 1;
  around.sort((a, b) => nodes[a].links[0].relation - nodes[b].links[0].relation ||
    best(nodes[a].proba[last]) - best(nodes[b].proba[last]) || a - b);
  const board = el("div", {class: "board"});
  const shapes = [];

  function places(width, height) {
    const rings = around.length > (width < 480 ? 9 : 16) ? 2 : 1;
    const found = [[width / 2, height / 2]];
    around.forEach((node, i) => {
      const angle = -Math.PI / 2 + (2 * Math.PI * (i + 0.5)) / around.length;
      const reach = rings === 2 && i % 2 ? 0.6 : 1;
      found[node] = [width / 2 + reach * (width / 2 - 46) * Math.cos(angle), height / 2 + reach * (height / 2 - 40) * Math.sin(angle)];
    });
    return found;
  }

  function line(from, to, turn, total) { // several links between two nodes lie side by side
    const [x, y] = from, [u, v] = to;
    const length = Math.hypot(u - x, v - y) || 1;
    const bend = (turn - (total - 1) / 2) * 26;
    return `M ${x} ${y} Q ${(x + u) / 2 - ((v - y) / length) * bend} ${(y + v) / 2 + ((u - x) / length) * bend} ${u} ${v}`;
  }

  function drawBoard() {
    const width = Math.max(280, Math.min(760, board.clientWidth || 640));
    const height = Math.round(Math.max(300, Math.min(540, width * 0.82)));
    const at = places(width, height);
    const radius = around.length > 24 ? 10 : 14;
    const named = around.length <= (width < 480 ? 12 : 24);
    const picture = svg("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "the node and its neighbours"});
    const lines = svg("g", {class: "links"}), ties = svg("g", {class: "ties"}), dots = svg("g", {class: "dots"});
    for (const i of around) {
      nodes[i].links.forEach((link, turn) => lines.append(svg("path", {
        d: line(at[0], at[i], turn, nodes[i].links.length), class: "link relation-" + (link.relation % 6),
        style: {strokeWidth: 1 + 2.5 * Math.sqrt(link.width || 0) + "px"}})));
    }
    shapes.length = 0;
    for (const i of [...around, 0]) dots.append(dot(i, at[i], i ? radius : width < 480 ? 24 : 29, named || !i));
    shapes.ties = ties;
    shapes.at = at;
    picture.append(lines, ties, dots);
    board.replaceChildren(picture);
    paint();
  }

  function dot(i, [x, y], r, named) {
    const node = nodes[i];
    const sure = svg("circle", {r, class: "sure", pathLength: 100, transform: "rotate(-90)"});
    const said = svg("text", {class: "said", y: 4});
    const group = svg("g", {class: "node" + (i ? "" : " centre"), transform: `translate(${x} ${y})`, "data-node": i},
      svg("circle", {r, class: "body"}), sure, r > 12 && said,
      node.known && svg("circle", {r: 4, cx: r * 0.75, cy: -r * 0.75, class: "known"}),
      named && svg("text", {class: "name", y: r + 14}, short(node.name, i ? 11 : 22)));
    pressable(group, () => select(i));
    tooltip(group, () => el("div", {}, el("strong", {}, node.name), titled(node), distribution(node.proba[state.level], 5)));
    shapes[i] = {group, sure, said, r};
    return group;
  }

  function paint() {
    nodes.forEach((node, i) => {
      const p = node.proba[state.level], c = best(p), {group, sure, said, r} = shapes[i];
      for (const [key, value] of Object.entries(colour(c))) group.style.setProperty(key, value);
      sure.style.strokeDasharray = `${100 * p[c]} 100`;
      said.textContent = r > 20 ? short(classes[c], classes[c].length > 8 ? 6 : 8) : classes[c].slice(0, 3);
      group.dataset.class = classes[c];
      group.setAttribute("aria-label", `${node.name}: ${classes[c]} ${percent(p[c])}${node.known ? ", label known" : ""}`);
      group.setAttribute("aria-pressed", String(i === state.selected));
    });
    const here = shapes.at[state.selected];
    shapes.ties.replaceChildren(...(state.selected ? nodes[state.selected].ties.map((j) => svg("path", {d: line(here, shapes.at[j], 0, 1)})) : []));
  }

  function legend() {
    const shown = [...new Set(nodes.flatMap((n) => n.proba.map(best)))].sort((a, b) => rank[a] - rank[b]);
    const sample = (r) => svg("svg", {class: "sample", width: 34, height: 10, viewBox: "0 0 34 10", "aria-hidden": "true"},
      svg("path", {d: "M 1 5 H 33", class: "link relation-" + (r % 6)}));
    return el("div", {class: "legend"},
      shown.slice(0, 12).map((c) => chip(c)), shown.length > 12 && el("span", {class: "note"}, `and ${shown.length - 12} others`),
      data.relations.map((name, r) => el("span", {class: "key"}, sample(r), name)),
      el("span", {class: "key"}, "the ring: how sure"),
      nodes.some((n) => n.known) && el("span", {class: "key"}, el("span", {class: "known-key"}), "label known"));
  }

  /* -- one node --------------------------------------------------------------------------------------- */
  const panel = el("div", {class: "card panel", "aria-live": "polite"});

  function votes(node, level) { // what the node in question received of it
    return (node.links || []).map((link) => {
      const said = link.votes[data.shares ? 0 : level - 1];
      if (!said || !said.some((p) => p > 0)) return el("p", {}, data.relations[link.relation], ": gives nothing at this level");
      const c = best(said);
      return el("p", {}, data.relations[link.relation], data.shares ? " predicts " : " gives ", chip(c, said[c]), el("span", {class: "note"}, " ", link.source));
    });
  }

  function features(node) {
    if (!node.features.length) return el("p", {class: "note"}, "No feature is on.");
    const words = node.features.every(([, value]) => value === node.features[0][1]);
    return el("p", {class: "words"}, node.features.map(([name, value]) => el("span", {class: "plain-chip"}, words ? name : `${name} ${Number(value.toPrecision(3))}`)),
      node.n_features > node.features.length && el("span", {class: "note"}, `and ${node.n_features - node.features.length} more`));
  }

  const titleAt = (drawn) => (drawn !== null && nodes[drawn].title ? "\n" + nodes[drawn].title : "");

  function neighbours(node) {
    const one = ([name, relation, drawn, known, says]) => {
      const [c, p] = says[state.level];
      const button = el("span", {class: "chip", vars: colour(c), title: `${relation}: ${classes[c]} ${percent(p)}${known ? ", label known" : ""}${titleAt(drawn)}`}, short(name, 18), known && " •");
      return drawn === null ? button : pressable(button, () => select(drawn));
    };
    if (!node.around.length) return el("p", {class: "note"}, "It looks at nobody.");
    return el("p", {class: "words"}, node.around.map(one), node.n_around > node.around.length && el("span", {class: "note"}, `and ${node.n_around - node.around.length} more`));
  }

  function drawPanel() {
    const node = nodes[state.selected];
    const received = state.selected ? votes(node, state.level) : [];
    panel.replaceChildren(
      el("h3", {}, node.name, state.selected ? null : el("span", {class: "note"}, " the node in question")),
      titled(node) || "",
      el("p", {class: "note facts-line"}, levels.length > 1 ? `By ${levels[state.level]}. ` : null,
        node.truth === null ? null : ["In the data its label is ", namedChip(node.truth), node.known ? "; neighbours receive it." : "."]),
      distribution(node.proba[state.level]),
      levels.length > 1 ? stack(node) : el("span"),
      received.length ? el("h4", {}, "To " + nodes[0].name) : el("span"), ...received,
      el("h4", {}, "Its features, the largest first"), features(node),
      el("h4", {}, "Whom it looks at"), neighbours(node));
  }

  /* A row a level: how the distribution moves. A row can be clicked. */
  function stack(node) {
    return el("div", {class: "stack"}, levels.map((name, level) => {
      const p = node.proba[level], c = best(p);
      const order = classes.map((_, i) => i).filter((i) => p[i] >= 0.004).sort((a, b) => rank[a] - rank[b]);
      const row = el("div", {class: "stack-row", "aria-pressed": String(level === state.level), "data-level": level},
        el("span", {class: "stack-name"}, name),
        el("span", {class: "stack-bar"}, order.map((i) => el("span", {class: "stack-part", vars: colour(i), style: {width: 100 * p[i] + "%"}}))),
        el("span", {class: "stack-said"}, short(classes[c], 16), " ", percent(p[c], 0)));
      return pressable(row, () => setLevel(level));
    }));
  }

  /* -- what moved the answer --------------------------------------------------------------------------- */
  const moved = el("div", {class: "moved"});
  const points = (effect) => signed(100 * effect, 1) + " points";
  const says = (p) => { const c = best(p); return chip(c, p[c]); };

  function signedBar(effect, widest) {
    const width = (50 * Math.abs(effect)) / widest + "%";
    return el("span", {class: "signed-track"}, el("span", {class: effect < 0 ? "signed-fill down" : "signed-fill up", style: effect < 0 ? {right: "50%", width} : {left: "50%", width}}));
  }

  function effectRow(name, told, effect, without, widest) {
    return el("div", {class: "effect"},
      el("div", {class: "effect-name"}, name), el("div", {class: "effect-bar"}, signedBar(effect, widest)),
      el("div", {class: "effect-value " + (effect < 0 ? "bad" : "good")}, points(effect)),
      el("div", {class: "effect-told"}, told, el("span", {class: "without"}, el("span", {class: "note"}, "without it "), says(without), other(without))));
  }

  /* Where another class would win, what is left of the answer: the effect is the difference to it. */
  function other(without) {
    const answer = classes.indexOf(data.label);
    const wins = without.indexOf(Math.max(...without)) === answer;
    return wins ? null : el("span", {class: "note"}, ` and ${data.label} ${percent(without[answer])}`);
  }

  function valuesOf(one) {
    const faint = 0.005 * Math.max(...one.values.map(([, value]) => Math.abs(value)), 0);
    const shown = one.values.filter(([, value]) => Math.abs(value) > faint).slice(0, 6);
    const number = (value) => Number(Math.abs(value) < 1 ? value.toPrecision(2) : value.toFixed(2));
    return [el("span", {class: "note"}, one.meaning, ": "),
      shown.length ? shown.map(([name, value]) => [namedChip(name, " " + number(value)), " "]) : "nothing",
      one.n_columns > 6 && shown.length === 6 ? "… " : null];
  }

  function drawMoved() {
    const found = data.aggregates[state.level];
    clear(moved);
    if (!found) {
      if (levels.length > 1) moved.append(el("p", {class: "note"}, "This level has no neighbours to listen to. Choose a later one."));
      return;
    }
    const widest = Math.max(0.01, Math.abs(found.together || 0), ...found.all.map((one) => Math.abs(one.effect)));
    moved.append(
      el("p", {class: "note"}, "To the right: it adds to the probability of ", namedChip(data.label), ". Each time the model was asked again as if the node had no such neighbours, all else as it is. Effects need not add up."),
      found.all.map((one) => effectRow(one.name, valuesOf(one), one.effect, one.without, widest)).reduce((box, row) => (box.append(row), box), el("div", {class: "effects"})));
    if (found.all.length > 1 && found.together !== null) {
      moved.lastChild.append(effectRow("all aggregates", null, found.together, found.without_all, widest));
    }
  }

  function shares() {
    const widest = Math.max(0.001, ...data.shares.map((one) => one.share));
    const row = (one) => {
      const line = el("div", {class: "effect", "data-share": one.drawn === null ? "" : one.drawn},
        el("div", {class: "effect-name"}, one.name, el("span", {class: "note"}, one.relation ? " " + one.relation : " its own features alone"), one.drawn !== null && titled(nodes[one.drawn])),
        el("div", {class: "effect-bar"}, el("span", {class: "bar-track"}, el("span", {class: "bar-fill", style: {width: (100 * one.share) / widest + "%"}, vars: colour(one.says[0])}))),
        el("div", {class: "effect-value"}, percent(one.share)),
        el("div", {class: "effect-told"}, el("span", {class: "note"}, "weight " + percent(one.weight) + ", "), one.is && ["is ", chip(...one.is), ", "],
          "predicts ", chip(...one.says), classes[one.says[0]] !== data.label && el("span", {class: "note"}, ` and ${data.label} with ${percent(one.answer)}`)));
      return one.drawn === null ? line : pressable(line, () => select(one.drawn));
    };
    return el("div", {}, el("h3", {}, "Who contributed the answer"),
      el("p", {class: "note"}, "share = weight · predicted probability of the answer, divided by its probability. Shares sum to 100 %."),
      el("div", {class: "effects"}, data.shares.map(row)),
      data.rest_share > 0 && el("p", {class: "note"}, "All others: " + percent(data.rest_share)));
  }

  /* -- put together ----------------------------------------------------------------------------------- */
  const switches = levels.map((name, level) => el("button", {type: "button", onclick: () => setLevel(level), "data-level": level}, name));
  const note = el("p", {class: "note"});
  const rest = el("div");

  function drawRest() {
    if (!data.n_rest) return;
    rest.replaceChildren(el("h3", {}, `${data.n_rest} more neighbours`), el("p", {class: "words"}, data.rest.map(([name, known, said]) => {
      const [c, p] = said[state.level];
      return el("span", {class: "chip", vars: colour(c), title: `${classes[c]} ${percent(p)}`}, short(name, 24), known && " •");
    }), data.n_rest > data.rest.length && el("span", {class: "note"}, `and ${data.n_rest - data.rest.length} more`)));
  }

  function select(i) { state.selected = i; paint(); drawPanel(); }
  function setLevel(level) {
    state.level = level;
    switches.forEach((button, i) => button.setAttribute("aria-pressed", String(i === level)));
    note.textContent = (data.notes || [])[level] || "";
    paint(); drawPanel(); drawMoved(); drawRest();
  }

  root.append(el("p", {class: "lead"}, data.lead.join(" ")));
  if (levels.length > 1) root.append(el("div", {class: "switches", role: "group", "aria-label": "level"}, switches));
  root.append(note, el("div", {class: "nodes-grid"}, el("div", {}, board, legend()), panel));
  root.append(data.shares ? shares() : el("div", {}, el("h3", {}, "What moved the answer"), moved), rest);
  drawBoard();
  setLevel(state.level);
  new ResizeObserver(() => { if (Math.abs(board.clientWidth - Number(board.dataset.width || 0)) > 8) { board.dataset.width = board.clientWidth; drawBoard(); } }).observe(board);
};
