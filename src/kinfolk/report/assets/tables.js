/* Tables and pictures. table: headings, rows (strings or numbers), number (columns set to the right), note.
   figure: image (a data: address of a PNG), note. */
kinfolk.kinds.table = (data, root) => {
  const {el, table} = kinfolk;
  root.append(table(data.headings, data.rows, {number: data.number}));
  if (data.note) root.append(el("p", {class: "note"}, data.note));
};

kinfolk.kinds.figure = (data, root) => {
  const {el} = kinfolk;
  root.append(el("figure", {}, el("img", {src: data.image, alt: data.note || ""}), data.note && el("figcaption", {}, data.note)));
};
