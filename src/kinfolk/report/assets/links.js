/* Clusters of records or mentions: a list of them, the one chosen with its items, its links as a picture and as a list,
   and the pair chosen as a waterfall from the log-odds of an average pair to its own. data: models/link_page.py. */
kinfolk.kinds.links = (() => {
  const {el, svg, signed, coloured, tooltip, pressable, table} = kinfolk;
  const grouped = (n) => n.toLocaleString("en");
  const count = (n, word) => grouped(n) + " " + word + (n === 1 ? "" : "s");
  const percent = (p, digits) => p < 1 && p > 0.9995 ? ">\u00a099.9\u00a0%" : p > 0 && p < 0.0005 ? "<\u00a00.1\u00a0%" : kinfolk.percent(p, digits);

  const notJoined = (pair) => pair.verdict.startsWith("not joined");
  /* The probability of the strongest candidate pair with another cluster; -1: there is none. */
  const nearest = (data, cluster) => Math.max(-1, ...cluster.refused.map((k) => data.pairs[k]).filter((pair) => !pair.verdict.startsWith("no candidate")).map((pair) => pair.p));

  // -- items ------------------------------------------------------------------------------------------

  const label = (item) => item.mention === undefined ? item.id : item.mention;
  const hint = (item) => item.mention === undefined ? item.values.filter(Boolean).slice(0, 2).join(" ") : item.id;
  const cut = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;

  /* Beginning, middle and end of a text, beginning and end being those it has in common with another one. */
  function parts(text, other) {
    const a = [...text], b = [...other];
    let start = 0, end = 0;
    while (start < a.length && start < b.length && a[start] === b[start]) start++;
    while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
    return [a.slice(0, start).join(""), a.slice(start, a.length - end).join(""), a.slice(a.length - end).join("")];
  }

  const byLetters = (text, other) => {
    const [start, middle, end] = parts(text, other);
    return [start, el("mark", {class: middle ? null : "gap", title: middle ? null : "letters are missing here"}, middle), end];
  };

  /* A word without case and without what stands around it: "(Black)," is "black". */
  const bare = (word) => word.toLowerCase().replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "");
  /* The words of a text that another one does not have, wherever they stand; of words there twice, each counts. */
  function extra(text, other) {
    const counts = new Map();
    for (const word of other.split(/\s+/).map(bare)) counts.set(word, (counts.get(word) || 0) + 1);
    return text.split(/\s+/).map((word) => {
      const left = counts.get(bare(word)) || 0;
      counts.set(bare(word), left - 1);
      return left <= 0 && bare(word) !== "";
    });
  }

  /* A text with what sets it apart from another one marked: words the other one does not have; of single words letters. */
  function marked(text, other) {
    if (text === null) return el("span", {class: "soft"}, "–");
    const kind = {class: text.length > 24 ? "long" : "brief"};
    if (other === null || other === undefined || text === other) return el("span", kind, text);
    const several = /\s/.test(text.trim()) && /\s/.test(other.trim());
    if (!several || !parts(text, other)[1] || !parts(other, text)[1]) return el("span", kind, byLetters(text, other));
    const mine = extra(text, other), theirs = extra(other, text), changed = mine.filter(Boolean).length;
    const missed = other.split(/\s+/).filter((_, i) => theirs[i]);
    if (!changed && !missed.length) return el("span", {class: kind.class + " reordered", title: "the same words, set differently"}, text);
    return el("span", kind, text.split(/\s+/).map((word, i) => [i > 0 && " ", !mine[i] ? word
      : changed === 1 && missed.length === 1 ? byLetters(word, missed[0]) : el("mark", {}, word)]));
  }

  const sentence = (item) =>
    el("span", {class: "sentence"}, item.before + " ", el("mark", {class: "mention"}, item.mention), " " + item.after);

  const badge = (view, index) => {
    const place = view.place.get(index);
    return place === undefined ? el("span", {class: "badge elsewhere", title: "in another cluster"}, "↗")
      : el("span", {class: "badge", vars: coloured(view.side(index))}, place + 1);
  };

  function commonest(values) {
    const counts = new Map();
    for (const value of values) if (value !== null) counts.set(value, (counts.get(value) || 0) + 1);
    return [...counts.keys()].reduce((best, value) => best === null || counts.get(value) > counts.get(best) ? value : best, null);
  }

  /* The true entities of a cluster that mixes some, as letters. */
  function entities(view) {
    if (!(view.cluster.truths > 1)) return null;
    const letters = new Map();
    for (const item of view.items) {
      if (!letters.has(item.truth)) letters.set(item.truth, String.fromCharCode(65 + letters.size % 26));
    }
    return (item) => el("span", {class: "chip", vars: coloured(2 + [...letters.keys()].indexOf(item.truth))}, letters.get(item.truth));
  }

  function recordTable(view) {
    const {data, items} = view, letter = entities(view);
    const fields = data.fields.map((name, f) => ({name, f, usual: commonest(items.map((item) => item.values[f]))}))
      .filter((field) => field.usual !== null);
    const headings = ["", "id", data.tables && "table", letter && "truly", ...fields.map((field) => field.name)].filter((h) => h !== null && h !== false);
    const rows = items.map((item, i) => [badge(view, view.cluster.items[i]), item.id, data.tables && item.table, letter && letter(item),
      ...fields.map((field) => marked(item.values[field.f], field.usual))].filter((c) => c !== null && c !== false));
    return table(headings, rows);
  }

  function mentionList(view) {
    const letter = entities(view);
    return el("ol", {class: "mentions"}, view.items.map((item, i) => el("li", {}, badge(view, view.cluster.items[i]),
      el("span", {}, letter && [letter(item), " "], sentence(item),
        el("span", {class: "soft small"}, " " + [item.id, ...item.values.filter(Boolean)].join(" · "))))));
  }

  // -- the picture of the links -----------------------------------------------------------------------

  /* Two islands, the parts the cluster would fall into, with the ends of the weakest link facing each other. */
  function layout(view, width) {
    const {cluster, data} = view, weakest = cluster.weakest === null ? null : data.pairs[cluster.weakest];
    const islands = [[], []];
    for (const index of cluster.items) islands[view.side(index)].push(index);
    if (weakest) for (const island of islands) { // the end of the weakest link comes first
      const at = island.findIndex((index) => index === weakest.a || index === weakest.b);
      island.push(...island.splice(0, Math.max(at, 0)));
    }
    const wanted = islands.map((island) => island.length < 2 ? 0 : Math.max(42, island.length * 36 / (2 * Math.PI)));
    const margin = 22, gap = islands[1].length ? Math.max(80, width * 0.25) : 0;
    const room = Math.min((width - 2 * margin - gap) / 2, islands[1].length ? Infinity : 170);
    const scale = Math.min(1, room / Math.max(wanted[0] + wanted[1], 1), 190 / Math.max(...wanted, 1));
    const radius = wanted.map((r) => r * scale), used = 2 * (radius[0] + radius[1]) + gap;
    const height = 2 * Math.max(...radius, 20) + 2 * margin + 16, left = (width - used) / 2;
    const centre = [left + radius[0], left + used - radius[1]], at = new Map();
    islands.forEach((island, s) => island.forEach((index, k) => {
      const angle = (s ? Math.PI : 0) + 2 * Math.PI * k / island.length;
      at.set(index, [centre[s] + radius[s] * Math.cos(angle), height / 2 + radius[s] * Math.sin(angle)]);
    }));
    const size = Math.max(4, Math.min(12, 14 * scale));
    return {at, height, size};
  }

  function picture(view, width) {
    const {cluster, data} = view, {at, height, size} = layout(view, width);
    const root = svg("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "The links of the cluster; the list beside it has the same pairs"});
    const lines = svg("g", {}), hits = svg("g", {}), dots = svg("g", {});
    const ends = (a, b) => ({x1: at.get(a)[0], y1: at.get(a)[1], x2: at.get(b)[0], y2: at.get(b)[1]});
    view.lines = new Map();
    for (const [a, b] of cluster.must) if (at.has(a) && at.has(b)) lines.append(svg("line", {...ends(a, b), class: "link must"}));
    for (const k of cluster.inside) {
      const pair = data.pairs[k], accepted = pair.p > data.threshold;
      if (!at.has(pair.a) || !at.has(pair.b)) continue;
      const strength = accepted ? (pair.p - data.threshold) / (1 - data.threshold || 1) : 0;
      const line = svg("line", {...ends(pair.a, pair.b), class: "link" + (accepted ? "" : " refused") + (k === cluster.weakest ? " weakest" : ""),
        style: {strokeWidth: accepted ? 1 + 3 * strength : 1.2, strokeOpacity: k === cluster.weakest ? 1 : accepted ? 0.25 + 0.5 * strength : 0.5}});
      const hit = svg("line", {...ends(pair.a, pair.b), class: "hit", "data-pair": k, onclick: () => view.choose(k)});
      tooltip(hit, () => el("span", {}, `${cut(label(data.items[pair.a]), 40)} – ${cut(label(data.items[pair.b]), 40)}: ${percent(pair.p)}`));
      lines.append(line); hits.append(hit); view.lines.set(k, line);
    }
    if (cluster.weakest !== null) hits.append(weakestLabel(data.pairs[cluster.weakest], at));
    for (const [index, [x, y]] of at) {
      const dot = svg("g", {class: "dot", vars: coloured(view.side(index))}, svg("circle", {cx: x, cy: y, r: size}),
        size >= 8 && svg("text", {x, y: y + 4, "text-anchor": "middle"}, view.place.get(index) + 1));
      tooltip(dot, () => el("span", {}, el("strong", {}, cut(label(data.items[index]), 60)), " " + cut(hint(data.items[index]), 60)));
      dots.append(dot);
    }
    root.append(lines, hits, dots);
    return root;
  }

  function weakestLabel(pair, at) {
    const [a, b] = [at.get(pair.a), at.get(pair.b)];
    return svg("text", {class: "weakest-label", x: (a[0] + b[0]) / 2, y: (a[1] + b[1]) / 2 - 7, "text-anchor": "middle"}, percent(pair.p));
  }

  // -- one pair ---------------------------------------------------------------------------------------

  /* From the log-odds of an average training pair, step by step, to those of the pair. */
  function waterfall(data, pair) {
    const decides = Math.log(data.threshold / (1 - data.threshold));
    const steps = pair.steps.map(([feature, share]) => ({name: data.features[feature], share}));
    if (pair.others) steps.push({name: count(pair.others, "other feature") + " together", share: pair.rest, rest: true});
    let sum = data.base;
    for (const step of steps) { step.from = sum; sum += step.share; step.to = sum; }
    const marks = [0, data.base, pair.score, ...steps.map((step) => step.to)].concat(Number.isFinite(decides) ? [decides] : []);
    const low = Math.min(...marks), span = Math.max(...marks) - low || 1;
    const x = (value) => 2 + 96 * (value - low) / span;
    const bar = (from, to, kind) => [
      Number.isFinite(decides) && el("span", {class: "decides", style: {left: x(decides) + "%"}}),
      el("span", {class: "step-bar " + kind, style: {left: Math.min(x(from), x(to)) + "%", width: Math.max(Math.abs(x(to) - x(from)), 0.4) + "%"}})];
    const row = (kind, name, from, to, value) => el("li", {class: "step " + kind},
      el("span", {class: "step-name"}, name), el("span", {class: "step-track"}, bar(from, to, kind)),
      el("span", {class: "step-value " + (kind === "for" ? "good" : kind === "against" ? "bad" : "")}, value));
    const kind = (step) => (step.share < 0 ? "against" : "for") + (step.rest ? " rest" : "");
    return el("div", {class: "waterfall"},
      el("ol", {},
        row("total", "a pair in training, on average", 0, data.base, signed(data.base)),
        steps.map((step) => row(kind(step), step.name, step.from, step.to, signed(step.share))),
        row("total end", "log-odds of this pair", 0, pair.score, signed(pair.score))),
      el("p", {class: "ends-at"}, "Log-odds of ", el("strong", {}, signed(pair.score)), " are a probability of ",
        el("strong", {class: pair.p > data.threshold ? "good" : "bad"}, percent(pair.p)),
        `; ${notJoined(pair) ? "by itself that is a link, which" : "a link"} takes more than ${percent(data.threshold, 0)} (the dashed line)`,
        notJoined(pair) ? ". The clustering had the last word: see above." : "."));
  }

  function sideBySide(view, pair) {
    const {data} = view, a = data.items[pair.a], b = data.items[pair.b];
    const both = [pair.a, pair.b].map((index) => el("span", {class: "who"}, badge(view, index), " ", label(data.items[index])));
    const fields = data.fields.map((name, f) => [name, marked(a.values[f], b.values[f]), marked(b.values[f], a.values[f]), a.values[f], b.values[f]])
      .filter((row) => row[3] !== null || row[4] !== null);
    const rows = fields.map((row) => ({mark: row[3] === row[4] ? "same" : "differ", cells: row.slice(0, 3)}));
    if (a.mention !== undefined) return el("div", {}, [a, b].map((item, i) => el("p", {class: "quoted"}, badge(view, i ? pair.b : pair.a), " ", sentence(item))),
      rows.length ? table(["", ...both], rows) : null);
    return table(["", ...both], rows);
  }

  function pairCard(view, k) {
    const {data} = view, pair = data.pairs[k], a = data.items[pair.a], b = data.items[pair.b];
    const known = a.truth !== undefined && b.truth !== undefined;
    const away = [pair.a, pair.b].find((index) => !view.place.has(index));
    const home = away === undefined ? -1 : data.clusters.findIndex((cluster) => cluster.items.includes(away));
    return el("div", {class: "card pair", "data-pair": k},
      el("h4", {}, cut(label(a), 80), " – ", cut(label(b), 80)),
      el("p", {}, el("strong", {}, percent(pair.p)), notJoined(pair) ? ", yet " : ": ", pair.verdict, k === view.cluster.weakest && ", the weakest link of the cluster", ". ",
        known && el("span", {class: (a.truth === b.truth) === pair.together ? null : "bad"}, a.truth === b.truth ? "In truth they are the same." : "In truth they are different."),
        home >= 0 && [" ", el("button", {type: "button", onclick: () => view.open(home)}, "Open the other cluster")]),
      sideBySide(view, pair), el("h4", {}, "What spoke for the link and what against it"), waterfall(data, pair));
  }

  // -- one cluster ------------------------------------------------------------------------------------

  function summary(view) {
    const {cluster, data} = view, documents = new Set(view.items.map((item) => item.document));
    const told = [count(cluster.size, data.text ? "mention" : "record")];
    if (documents.size === 1 && view.items[0].document !== undefined) told.push(` in ${view.items[0].document}`);
    told.push(`, ${count(cluster.pairs, "candidate pair")} among them. `);
    if (cluster.truths !== null && cluster.size > 1) {
      told.push(cluster.truths === 1 ? "In truth all are one. " : el("span", {class: "bad"}, `In truth they are of ${cluster.truths} different ones. `));
    }
    if (cluster.items.length < cluster.size) told.push(`Shown are ${cluster.items.length} of them, with ${cluster.inside.length} of the pairs. `);
    else if (cluster.inside.length < cluster.pairs) told.push(`Shown are ${cluster.inside.length} of the pairs. `);
    return el("p", {}, told);
  }

  function standsAlone({cluster, data}) {
    const p = nearest(data, cluster);
    if (p < 0) return "It stands alone: it has no candidate pair with another one.";
    if (p > data.threshold) return `It stands alone; its strongest pair, ${percent(p)}, was not joined by the clustering. Why: see that pair below.`;
    return `It stands alone: no pair with another one was linked; its strongest has ${percent(p)}.`;
  }

  function split(view) {
    const {cluster, data} = view;
    if (cluster.size === 1) return el("p", {class: "split"}, standsAlone(view));
    if (cluster.weakest === null) return el("p", {class: "split"}, "No candidate pairs hold it together, only links that were given.");
    const pair = data.pairs[cluster.weakest], bridges = cluster.must.filter(([a, b]) => view.place.has(a) && view.place.has(b) && view.side(a) !== view.side(b));
    const part = (s) => el("span", {class: "chip", vars: coloured(s)}, "part of " + grouped(cluster.parts[s]));
    const link = pressable(el("a", {class: "inline"}, `${cut(label(data.items[pair.a]), 40)} – ${cut(label(data.items[pair.b]), 40)}`), () => view.choose(cluster.weakest));
    return el("p", {class: "split"}, el("strong", {}, "What would split it: "), "its weakest link is ", link, ` with ${percent(pair.p)}. `,
      cluster.held ? `Were ${cluster.held === 1 ? "the one accepted pair" : "all " + grouped(cluster.held) + " accepted pairs"} between them refused, it would fall into a ` : "No pair between them was accepted by itself: a ",
      part(0), " and a ", part(1), ".",
      bridges.length > 0 && ` A link that was given holds them together besides.`);
  }

  function pairRow(view, k) {
    const {data, cluster} = view, pair = data.pairs[k];
    const row = pressable(el("div", {class: "pair-row", "data-pair": k}, el("span", {class: "ends"}, badge(view, pair.a), " ", cut(label(data.items[pair.a]), 28), " – ", badge(view, pair.b), " ", cut(label(data.items[pair.b]), 28),
      k === cluster.weakest && el("span", {class: "tag"}, "weakest"), k === data.opened && el("span", {class: "tag asked"}, "asked"),
      pair.verdict.startsWith("no candidate") && el("span", {class: "tag"}, "no candidate")),
      el("span", {class: "bar-track"}, el("span", {class: "bar-fill " + (pair.p > data.threshold ? "yes" : "no"), style: {width: 100 * pair.p + "%"}})),
      el("span", {class: "bar-value"}, percent(pair.p))), () => view.choose(k));
    view.rows.set(k, row);
    return row;
  }

  function pairLists(view) {
    const {cluster, data} = view;
    const given = (links, word) => links.length > 0 && el("p", {class: "note"}, word + ": ", links.map(([a, b], i) => [i > 0 && "; ", cut(label(data.items[a]), 40), " – ", cut(label(data.items[b]), 40)]));
    return el("div", {class: "pair-lists"},
      cluster.inside.length > 0 && [el("h4", {}, "Pairs inside"), el("div", {class: "pair-list"}, cluster.inside.map((k) => pairRow(view, k)))],
      cluster.refused.length > 0 && [el("h4", {}, "Strongest pairs with other clusters, not joined"), el("div", {class: "pair-list"}, cluster.refused.map((k) => pairRow(view, k)))],
      given(cluster.must, "Given: must be linked"), given(cluster.cannot, "Given: must not be linked"));
  }

  function clusterView(data, number, root, open, outward) {
    const cluster = data.clusters[number];
    const view = {data, cluster, open, items: cluster.items.map((i) => data.items[i]), rows: new Map(), lines: new Map(),
      place: new Map(cluster.items.map((index, i) => [index, i])), side: (index) => cluster.sides ? cluster.sides[view.place.get(index)] || 0 : 0};
    const card = el("div", {class: "pair-place"}), drawing = el("div", {class: "picture"});
    view.choose = (k, still) => {
      card.replaceChildren(pairCard(view, k));
      for (const marks of [view.rows, view.lines]) for (const [key, node] of marks) node.classList.toggle("chosen", key === k);
      if (!still) card.scrollIntoView({block: "nearest"});
    };
    root.replaceChildren(el("h3", {}, cluster.name), summary(view), split(view),
      el("div", {class: "members"}, data.text ? mentionList(view) : recordTable(view)),
      el("div", {class: "links-and-pairs"}, cluster.size > 1 && el("div", {}, el("h4", {}, "The links"), drawing,
        el("p", {class: "note"}, "Numbers are those of the list above. Thicker lines are more probable; ", el("span", {class: "weakest-word"}, "the weakest link"),
          " stands out; dashed ones were refused. Click one to see why.")), pairLists(view)), card);
    view.redraw = () => {
      const width = Math.floor(drawing.clientWidth);
      if (cluster.size < 2 || !width || width === view.width) return;
      view.width = width;
      drawing.replaceChildren(picture(view, width));
      const shown = card.querySelector("[data-pair]");
      if (shown && view.lines.has(+shown.dataset.pair)) view.lines.get(+shown.dataset.pair).classList.add("chosen");
    };
    view.redraw();
    const asked = data.opened !== null && [...cluster.inside, ...cluster.refused].includes(data.opened) ? data.opened : null;
    const first = [asked, outward ? cluster.refused[0] : null, cluster.weakest, cluster.inside[0], cluster.refused[0]].find((k) => k !== null && k !== undefined);
    if (first !== undefined) view.choose(first, true);
    return view;
  }

  // -- the list of clusters ---------------------------------------------------------------------------

  const lowest = (data, cluster) => cluster.weakest === null ? 2 : data.pairs[cluster.weakest].p;
  const NEARLY = "Nearly joined";
  const ORDERS = {
    "Most doubtful": (data) => (a, b) => lowest(data, a) - lowest(data, b) || b.size - a.size,
    "Largest": (data) => (a, b) => b.size - a.size || lowest(data, a) - lowest(data, b),
    [NEARLY]: (data) => (a, b) => nearest(data, b) - nearest(data, a),
  };

  function clusterList(data, open) {
    const text = data.clusters.map((cluster) => [cluster.name, ...cluster.items.flatMap((i) => [data.items[i].id, data.items[i].mention, ...data.items[i].values])]
      .filter(Boolean).join("\n").toLowerCase());
    const entries = data.clusters.map((cluster, number) => pressable(el("div", {class: "cluster", "data-cluster": number},
      el("span", {class: "cluster-name"}, cluster.name),
      el("span", {class: "soft small"})), () => open(number, true, order === NEARLY)));
    /* What stands under the name of a cluster: the number it is ordered by. */
    const facts = (cluster) => [count(cluster.size, data.text ? "mention" : "record"),
      order === NEARLY || cluster.size === 1 ? nearest(data, cluster) >= 0 && ` · nearest pair not joined: ${percent(nearest(data, cluster))}`
        : cluster.weakest !== null && ` · weakest link ${percent(lowest(data, cluster))}`,
      cluster.truths > 1 && el("span", {class: "bad"}, ` · truly ${cluster.truths}`)].filter(Boolean);
    const list = el("div", {class: "clusters"}), told = el("p", {class: "note"});
    const box = el("input", {type: "search", placeholder: "Find text …", "aria-label": "Show clusters that hold this text", oninput: () => fillIn()});
    let order = "Most doubtful";
    const buttons = Object.keys(ORDERS).map((name) => el("button", {type: "button", onclick: () => {
      order = name;
      const first = fillIn()[0];
      list.scrollTop = 0;
      if (first !== undefined) open(first, false, name === NEARLY);
    }}, name));
    function fillIn() {
      const wanted = box.value.trim().toLowerCase();
      const shown = data.clusters.map((cluster, number) => number).filter((number) => text[number].includes(wanted));
      const compare = ORDERS[order](data);
      shown.sort((a, b) => compare(data.clusters[a], data.clusters[b]));
      for (const number of shown) entries[number].lastChild.replaceChildren(...facts(data.clusters[number]));
      list.replaceChildren(...shown.map((number) => entries[number]));
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.textContent === order));
      told.textContent = (wanted ? `${shown.length} found among ${count(data.clusters.length, "cluster")}` : count(data.clusters.length, "cluster"))
        + (data.clusters.length < data.total ? ` of ${grouped(data.total)}: the most doubtful, the largest, the most nearly joined` : "");
      return shown;
    }
    const first = fillIn()[0];
    return {node: el("div", {class: "cluster-list"}, box, el("div", {class: "orders"}, buttons), told, list), entries, first};
  }

  return (data, root) => {
    if (!data.clusters.length) { root.append(el("p", {}, "There are no items, so there are no clusters.")); return; }
    const place = el("div", {class: "cluster-view"});
    let view = null;
    const open = (number, byHand, outward) => {
      view = clusterView(data, number, place, (other) => open(other, true), outward);
      list.entries.forEach((entry, i) => entry.setAttribute("aria-current", String(i === number)));
      if (byHand) place.scrollIntoView({block: matchMedia("(max-width: 60rem)").matches ? "start" : "nearest"});
    };
    const list = clusterList(data, open);
    const alone = data.clusters.length === 1;
    root.append(el("div", {class: alone ? "links-page alone" : "links-page"}, !alone && list.node, place));
    open(data.opened === null ? list.first : 0);
    addEventListener("resize", () => view.redraw());
  };
})();
