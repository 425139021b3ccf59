/* A document with its entities. A word tells how sure its label is when pointed at, and whose word it followed when
   clicked; arcs join tokens that look at each other over a distance. */
kinfolk.kinds.tokens = (data, root) => {
  const {el, svg, percent, signed, bars, tooltip, clear} = kinfolk;
  const {words, classes, labels, gold, marginals, relations, edges, voices, features} = data;
  const typeOf = (name) => name.replace(/^[BIESLU]-/, "");
  const types = [...new Set([...classes.map(typeOf).filter((t) => t !== "O"), ...data.entities.map((e) => e[2])])];
  const hueOf = (name) => types.indexOf(typeOf(name));
  const colour = (name) => (hueOf(name) < 0 ? {"--hue": 210, "--vivid": "8%"} : kinfolk.coloured(hueOf(name)));
  const chip = (name) => el("span", {class: hueOf(name) < 0 ? "chip plain" : "chip", vars: colour(name)}, name);
  const spans = new Array(words.length);
  const sentenceOf = new Array(words.length);
  let selected = -1;

  const shown = el("div", {class: "doc-text", tabindex: "0", role: "application",
    "aria-label": "The document; arrow keys move from word to word"});
  const panel = el("aside", {class: "doc-panel card", "aria-live": "polite"});
  const arcs = svg("svg", {class: "arcs", "aria-hidden": "true"});
  const faint = arcs.appendChild(svg("path", {class: "arc-faint"}));
  const strong = arcs.appendChild(svg("g", {}));
  const text = el("div", {class: "doc-page"}, arcs, shown);

  /* -- the text -- */
  const startsAt = new Map(data.entities.map((entity) => [entity[0], entity]));
  for (let s = 0; s + 1 < data.sentences.length; s++) {
    const line = el("p", {class: "sentence"});
    for (let t = data.sentences[s]; t < data.sentences[s + 1];) {
      const entity = startsAt.get(t);
      const end = entity ? entity[1] : t + 1;
      const inside = [];
      for (let i = t; i < end; i++) {
        sentenceOf[i] = s;
        spans[i] = el("span", {class: "token" + (gold && gold[i] >= 0 && gold[i] !== labels[i] ? " wrong" : ""), "data-i": i}, words[i]);
        inside.push(spans[i], i + 1 < end ? " " : null);
      }
      line.append(entity
        ? el("span", {class: "entity", vars: colour(entity[2])}, inside, el("small", {}, entity[2]))
        : inside[0], " ");
      t = end;
    }
    shown.append(line);
  }
  const tokenAt = (event) => {
    const span = event.target.closest && event.target.closest(".token");
    return span ? Number(span.dataset.i) : -1;
  };
  tooltip(shown, (event) => {
    const t = tokenAt(event);
    if (t < 0 || t === selected) return null; // of the chosen one the panel tells
    return el("div", {}, el("b", {}, words[t]), " ", chip(classes[labels[t]]),
      bars(classes, marginals[t], {vars: (i) => colour(classes[i]), most: 4}));
  });

  /* -- who looks at whom -- */
  const place = (t) => {
    const box = spans[t].getClientRects()[0] || spans[t].getBoundingClientRect(), origin = text.getBoundingClientRect();
    return [box.left + box.width / 2 - origin.left, box.top - origin.top];
  };
  const arc = ([x1, y1], [x2, y2]) => {
    const lift = Math.min(60, 14 + Math.abs(x2 - x1) / 6 + Math.abs(y2 - y1) / 14);
    const top = Math.min(y1, y2) - lift;
    return `M${x1.toFixed(1)} ${y1.toFixed(1)}C${x1.toFixed(1)} ${(y1 === y2 ? top : y1 - lift).toFixed(1)} ${x2.toFixed(1)} ${(y1 === y2 ? top : y2 - lift).toFixed(1)} ${x2.toFixed(1)} ${y2.toFixed(1)}`;
  };
  const layOut = () => {
    const places = new Map(); // every place is read before anything is written
    for (const [a, b] of edges) for (const t of [a, b]) if (!places.has(t)) places.set(t, place(t));
    faint.setAttribute("d", edges.map(([a, b]) => arc(places.get(a), places.get(b))).join(""));
  };
  const touching = new Map();
  for (const edge of edges) for (const t of new Set(edge.slice(0, 2))) {
    touching.set(t, [...(touching.get(t) || []), edge]);
  }
  const drawStrong = (t) => {
    const own = touching.get(t) || [];
    const shares = new Map((voices[t] || []).map((voice) => [voice[0], voice[2]]));
    const paths = own.map(([a, b]) => {
      const spoken = a === t ? shares.get(b) : undefined;
      return svg("path", {d: arc(place(a), place(b)), class: a === t ? "arc to-parent" : "arc from-child",
        style: {strokeWidth: 1.5 + 6 * (spoken || 0) + "px"}});
    });
    strong.replaceChildren(...paths);
    return new Set(own.flatMap(([a, b]) => [a, b]));
  };

  /* -- why this label -- */
  const sentence = (t, marked) => {
    const s = sentenceOf[t], from = Math.max(data.sentences[s], t - 12), to = Math.min(data.sentences[s + 1], t + 13);
    const around = [];
    for (let i = from; i < to; i++) around.push(i === marked ? el("mark", {}, words[i]) : words[i], " ");
    return el("span", {class: "quote"}, from > data.sentences[s] && "… ", around, to < data.sentences[s + 1] && "…");
  };
  const voiceRow = (voice, answer) => {
    const [parent, relation, share, weight, said, saidSure, own, ownSure, forAnswer] = voice;
    const name = parent < 0 ? "its own features, looking at nobody" : words[parent];
    const row = el("li", {class: "voice"},
      el("div", {class: "voice-head"}, el("b", {class: "share"}, percent(share)),
        el("span", {class: "bar-track"}, el("span", {class: "bar-fill", style: {width: 100 * share + "%"}, vars: colour(answer)})),
        el("span", {class: "voice-name"}, name), el("span", {class: "soft"}, relations[relation])),
      parent >= 0 && sentence(parent, parent),
      el("div", {class: "soft"}, parent >= 0 && ["is ", chip(classes[own]), " ", percent(ownSure), "; "],
        "predicts ", chip(classes[said]), " ", percent(saidSure),
        classes[said] !== answer && [", ", answer, " ", percent(forAnswer)], "; weight ", percent(weight)));
    if (parent >= 0) kinfolk.pressable(row, () => choose(parent, true));
    return row;
  };
  const featureRow = ([name, share], most) => el("li", {class: "feature"},
    el("span", {class: "number " + (share < 0 ? "bad" : "good")}, signed(share)),
    el("span", {class: "bar-track"}, el("span", {class: "bar-fill", style: {width: (100 * Math.abs(share)) / most + "%"}, vars: {"--hue": share < 0 ? 4 : 150}})),
    el("code", {}, name));
  const explain = (t) => {
    const answer = classes[labels[t]], spoken = voices[t] || [], on = features[t] || [];
    panel.replaceChildren(
      el("h3", {}, words[t], " ", chip(answer), " ", el("span", {class: "soft"}, percent(marginals[t][labels[t]]))),
      gold && gold[t] >= 0 && gold[t] !== labels[t] ? el("p", {class: "bad"}, "the true label is ", chip(classes[gold[t]])) : "",
      bars(classes, marginals[t], {vars: (i) => colour(classes[i])}),
      spoken.length ? el("h3", {}, "Whose word it followed") : "",
      spoken.length ? el("p", {class: "note"}, `Exact shares of the probability of ${answer}; they sum to 100 %.`) : "",
      spoken.length ? el("ul", {class: "voices"}, spoken.map((voice) => voiceRow(voice, answer))) : "",
      on.length ? el("h3", {}, "What its features say") : "",
      on.length ? el("p", {class: "note"}, `Added to the score of ${answer}, beyond the average label.`) : "",
      on.length ? el("ul", {class: "voices"}, on.map((one) => featureRow(one, Math.max(...on.map((f) => Math.abs(f[1])))))) : "");
  };
  function choose(t, scroll) {
    if (selected >= 0) for (const span of shown.querySelectorAll(".chosen, .beside")) span.classList.remove("chosen", "beside");
    selected = t;
    explain(t);
    for (const i of drawStrong(t)) spans[i].classList.add("beside");
    spans[t].classList.remove("beside");
    spans[t].classList.add("chosen");
    if (scroll) spans[t].scrollIntoView({block: "center", behavior: "auto"});
  }
  shown.addEventListener("click", (event) => tokenAt(event) >= 0 && choose(tokenAt(event), false));
  shown.addEventListener("keydown", (event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step) return;
    event.preventDefault();
    choose(Math.max(0, Math.min(words.length - 1, selected + step)), false);
    spans[selected].scrollIntoView({block: "nearest"});
  });

  /* -- around the text -- */
  const counts = types.map((type) => data.entities.filter((e) => e[2] === type).length);
  const legend = el("div", {class: "legend"}, types.map((type, i) => counts[i] ? el("span", {class: "chip", vars: colour(type)}, `${type} ${counts[i]}`) : null),
    gold && el("span", {class: "soft"}, "wavy line: not the true label"));
  if (edges.length) {
    const lines = `lines of ${edges.length} long edges`;
    const toggle = el("button", {onclick: () => {
      toggle.textContent = (arcs.classList.toggle("quiet") ? "show the " : "hide the ") + lines;
    }}, "hide the " + lines);
    legend.append(toggle);
  }
  clear(panel);
  panel.append(el("p", {class: "soft"}, words.length ? "Click a word to see why it has its label." : "There are no words in this document."));
  root.append(legend, el("div", {class: "doc"}, text, panel));
  layOut();
  let waiting = 0;
  new ResizeObserver(() => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => { layOut(); if (selected >= 0) drawStrong(selected); });
  }).observe(text);
  if (data.chosen >= 0) choose(data.chosen, false);
};
