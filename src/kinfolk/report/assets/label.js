/* Two records side by side, an answer by a key, and the next two. data.state: what the server says after every answer. */
kinfolk.kinds.label = (data, root) => {
  const {el, percent, clear} = kinfolk;
  const KEYS = {y: "yes", n: "no", u: "unsure"};
  const progress = el("p", {class: "note label-progress"});
  const note = el("p", {class: "label-note", role: "status", "aria-live": "polite"});
  const pair = el("div", {class: "label-pair"});
  const button = (key, text) => el("button", {type: "button", "data-key": key, onclick: () => press(key)}, text + " ", el("kbd", {}, key));
  const keys = el("div", {class: "label-keys"}, button("y", "Match"), button("n", "No match"), button("u", "Unsure"), button("b", "Back"));
  root.append(progress, pair, keys, note);
  let state = data.state, busy = false, watching = false, updates = state.updates, turn = 0;

  const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1) + ".";
  const side = (pieces) => pieces === null ? el("span", {class: "label-missing"}, "missing")
    : pieces.map(([text, differs]) => (differs ? el("mark", {}, text) : text));

  function draw() {
    const {question, counts, estimate} = state;
    const total = counts.yes + counts.no + counts.unsure;
    const told = `${total} answers: ${counts.yes} yes, ${counts.no} no, ${counts.unsure} unsure. `;
    progress.replaceChildren(told, estimate === null ? sentence(state.no_estimate) : el("span", {class: "label-estimate"},
      `Estimated pairwise F1 of the pairs compared ${percent(estimate.f1)} (${percent(estimate.lower)} to ${percent(estimate.upper)}).`));
    clear(pair);
    if (question === null) pair.append(el("p", {}, "No pair is left to ask about."));
    else pair.append(el("div", {class: "scroll"}, el("table", {},
      el("thead", {}, el("tr", {}, el("th", {}, ""), el("th", {class: "label-id"}, question.left), el("th", {class: "label-id"}, question.right))),
      el("tbody", {}, question.fields.map((field) => el("tr", {class: field.differs ? "label-differs" : null},
        el("th", {scope: "row"}, field.name), el("td", {}, side(field.left)), el("td", {}, side(field.right))))))),
      el("p", {class: "note"}, "Asked because: " + question.why + "."));
    if (state.updates !== updates) note.textContent = `Model updated (${state.updates}).`;
    else if (state.updating) note.textContent = "The model learns from your answers; go on meanwhile.";
    else if (state.note) note.textContent = state.note;
    updates = state.updates;
    root.dataset.answers = total;
    root.dataset.updates = updates;
    watch();
  }

  /* While the model learns, look every second whether it is done. */
  function watch() {
    if (!state.updating || watching) return;
    watching = true;
    setTimeout(async () => { watching = false; if (!busy) await ask("state"); }, 1000);
  }

  async function ask(what, body) {
    const asked = body === undefined ? turn : ++turn;
    try {
      const posted = {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)};
      const reply = await fetch(what, body === undefined ? {} : posted);
      const found = await reply.json();
      if (asked !== turn) return false; // of before an answer that was given meanwhile
      if (found.error) throw new Error(found.error);
      state = found;
      draw();
      return true;
    } catch (error) {
      if (body === undefined) return false; // the next answer will say it
      const told = error instanceof TypeError ? "kinfolk does not reply: is `kinfolk records label` still running?" : error.message;
      note.textContent = told + " This answer was not taken; all before it are on disk.";
      return false;
    }
  }

  async function press(key) {
    if (busy || (key !== "b" && state.question === null)) return;
    busy = true;
    const began = performance.now();
    note.textContent = "";
    const {left, right} = state.question || {};
    const done = key === "b" ? await ask("back", {}) : await ask("answer", {left, right, match: KEYS[key]});
    if (done) root.dataset.milliseconds = (performance.now() - began).toFixed(1);
    busy = false;
    watch();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const key = event.key.toLowerCase();
    if (key in KEYS || key === "b") { event.preventDefault(); press(key); }
  });
  draw();
  ask("state"); // whatever was answered since the page was made; and the way to the server is open
};
