/* Parts of words alone. data.paragraphs: strings; data.facts: [name, value] pairs. */
kinfolk.kinds.text = (data, root) => {
  const {el} = kinfolk;
  for (const paragraph of data.paragraphs || []) root.append(el("p", {}, paragraph));
  if (data.facts) root.append(el("dl", {class: "facts"}, data.facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
  for (const line of data.commands || []) root.append(el("pre", {}, el("code", {}, line)));
};
