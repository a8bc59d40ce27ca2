"use strict";
/* The graph of a program: boxes that unfold, laid out by dagre, with the shardings at the edges.

   Only what is unfolded is laid out. An open box is laid out by itself, and then is one box of its
   size around it, so that nothing in one overlaps anything in another. */

const MOST_BOXES = 300; // laid out at a time: what was unfolded first is folded for more
const TITLE = 13, SMALL = 11, LINE = 15, LEGIBLE = 9; // heights of text; the last on the screen
const WIDEST = 300, FAR = 6, HEADER = 30, MARGIN = 16, BOX_HEIGHT = 42;
const FONT = "system-ui, sans-serif";
const canvas = document.createElement("canvas").getContext("2d");

function widthOf(text, size) {
  canvas.font = `${size === TITLE ? 600 : 400} ${size}px ${FONT}`;
  return canvas.measureText(text).width * 1.02; // SVG's text may be wider by parts of a pixel
}

function clip(text, size, most) {
  if (widthOf(text, size) <= most) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (widthOf(text.slice(0, middle) + "…", size) <= most) low = middle;
    else high = middle - 1;
  }
  return low ? text.slice(0, low) + "…" : "";
}

function svg(name, attributes = {}, ...kids) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined) element.setAttribute(key, value);
  }
  element.append(...kids);
  return element;
}

/* The boxes of a report: each with what is in it, and its costs. */
class Boxes {
  constructor(report) {
    this.report = report;
    this.all = [];
    this.paths = []; // for each op, the boxes around it, the outermost first, then its own
    this.root = this.add(report.tree, null);
  }

  add(item, parent) {
    const box = { parent, depth: parent ? parent.depth + 1 : 0, kids: [], ops: [], opened: 0 };
    box.key = this.all.push(box);
    if (typeof item === "number") {
      const op = this.report.ops[item];
      Object.assign(box, { kind: op.sends.length ? "collective" : "op", ops: [item] });
      Object.assign(box, { seconds: op.seconds, sends: op.sends });
      box.id = op.sends.length ? `collective-${op.sends[0] + 1}` : `op-${item}`;
      this.paths[item] = [];
      for (let each = box; each; each = each.parent) this.paths[item].unshift(each);
    } else {
      box.kind = item.layer ? "layer" : "part";
      box.name = item.title;
      box.path = parent ? [...parent.path, item.title] : [];
      box.id = `layer-${box.path.join("/") || item.title}`;
      box.kids = item.kids.map((kid) => this.add(kid, box));
      for (const kid of box.kids) for (const op of kid.ops) box.ops.push(op);
      box.seconds = box.kids.reduce((sum, kid) => sum + kid.seconds, 0);
      box.sends = [...new Set(box.kids.flatMap((kid) => kid.sends))];
    }
    box.bytes = box.sends.reduce((sum, each) => sum + this.report.communication[each].bytes, 0);
    box.axes = [...new Set(box.sends.map((each) => this.report.communication[each].axes.join(", ")))];
    this.name(box);
    return box;
  }

  name(box) {
    const { ops, communication, types } = this.report;
    if (box.kind === "collective") {
      box.title = box.sends.map((each) => `#${each + 1} ${communication[each].kind}`).join(", ");
      box.small = `${box.axes.join("; ")} · ${bytesText(box.bytes)} · ${timeText(box.seconds)}`;
    } else if (box.kind === "op") {
      const [first] = ops[box.ops[0]].outputs;
      box.title = ops[box.ops[0]].name;
      box.small = [timeText(box.seconds), first && types[first[1]][0]].filter(Boolean).join(" · ");
    } else {
      box.title = box.name;
      const sent = box.bytes ? ` · sends ${bytesText(box.bytes)}` : "";
      box.small = `${timeText(box.seconds)}${sent}`;
    }
  }

  /* The values that pass between the boxes in one, by box that makes and box that reads them.

     What comes from outside of it, or from far above, comes from a port right above its reader. */
  edges(box) {
    if (box.edges) return box.edges;
    const found = new Map(), rows = new Map(), inside = box.depth + 1;
    for (const reader of box.ops) {
      const target = this.paths[reader][inside];
      for (const [number, output] of this.report.ops[reader].inputs) {
        const source = this.sourceOf(number, this.paths[reader], box, target);
        const value = source && this.report.ops[number].outputs[output];
        if (!source || (!value && !source.box)) continue; // the end of a region has no value
        const key = `${source.box ? source.box.key : ""} ${target.key}`;
        if (!found.has(key)) found.set(key, { source: source.box, target, names: new Set(), values: new Map() });
        found.get(key).names.add(source.name);
        if (value) found.get(key).values.set(value.join(" "), value);
      }
    }
    const inner = [...found.values()].filter(({ source }) => source);
    for (const kid of box.kids) {
      const above = inner.filter(({ target }) => target === kid).map(({ source }) => rows.get(source) ?? 0);
      rows.set(kid, Math.max(-1, ...above) + 1);
    }
    const ports = new Map();
    for (const { source, target, names, values } of found.values()) {
      if (source && rows.get(target) - rows.get(source) <= FAR) continue;
      if (!ports.has(target)) ports.set(target, { source: null, target, names: new Set(), values: new Map() });
      for (const name of names) ports.get(target).names.add(name);
      for (const [key, value] of values) ports.get(target).values.set(key, value);
    }
    const near = inner.filter(({ source, target }) => rows.get(target) - rows.get(source) <= FAR);
    box.edges = [...near, ...ports.values()].map((edge) => this.labelled(edge));
    return box.edges;
  }

  /* What makes a value: a box in this one; or, with a name only, a box around it, or an argument. */
  sourceOf(number, reader, box, target) {
    const path = this.paths[number], { name, given } = this.report.ops[number];
    if (!path) return given && target.kind !== "layer" ? { name } : null;
    if (path[box.depth] !== box) return { name: path.find((each, depth) => each !== reader[depth]).title };
    const found = path[box.depth + 1];
    return found === target ? null : { box: found, name: found.title };
  }

  labelled(edge) {
    edge.values = [...edge.values.values()];
    const shardings = [...new Set(edge.values.map(([, type]) => this.report.types[type][1]))];
    const [first, ...more] = shardings.filter(Boolean);
    const text = first ? first + (more.length ? ` and ${more.length} more` : "") : "";
    edge.lines = text.split(/(?<=,) (?=partial|halo)/).filter(Boolean);
    edge.lines = edge.lines.map((line) => clip(line, SMALL, WIDEST));
    edge.width = Math.max(0, ...edge.lines.map((line) => widthOf(line, SMALL))) + (first ? 8 : 0);
    edge.height = edge.lines.length * LINE;
    if (!edge.source) {
      const [name, ...others] = edge.names;
      const title = clip(`from ${name}${others.length ? ` and ${others.length} more` : ""}`, SMALL, 200);
      edge.port = { title, width: widthOf(title, SMALL) + 16, height: 20 };
    }
    return edge;
  }

  laidOut() {
    return this.all.filter((box) => this.isShown(box));
  }

  isShown(box) {
    return !box.parent || (box.parent.opened > 0 && this.isShown(box.parent));
  }

  /* Unfold a box and all around it; fold others, the one that was unfolded first, if it is much. */
  unfold(box) {
    this.clock = (this.clock || 0) + 1;
    for (let each = box; each; each = each.parent) if (each.kids.length) each.opened = this.clock;
    while (this.laidOut().length > MOST_BOXES) {
      const others = this.laidOut().filter((each) => each.opened && each.opened < this.clock);
      if (!others.length) break;
      others.reduce((one, other) => (other.opened < one.opened ? other : one)).opened = 0;
    }
  }
}

function headOf(box) {
  return box.kids.length ? (box.opened ? "▾ " : "▸ ") + box.title : box.title;
}

/* Give a box its size, and if it is open the places of what is in it. */
function layOut(boxes, box) {
  const own = Math.min(WIDEST, Math.max(widthOf(headOf(box), TITLE), widthOf(box.small, SMALL)) * 1.1) + 24;
  Object.assign(box, { width: own, height: BOX_HEIGHT, links: [] });
  if (!box.opened) return;
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ nodesep: 24, edgesep: 16, ranksep: 36, marginx: MARGIN, marginy: MARGIN });
  box.kids.forEach((kid, number) => {
    kid.number = number;
    layOut(boxes, kid);
    graph.setNode(number, { width: kid.width, height: kid.height });
  });
  box.links = boxes.edges(box);
  box.links.forEach((link, number) => {
    const { source, target, port, width, height } = link;
    link.from = port ? `port ${number}` : source.number;
    if (port) graph.setNode(link.from, port);
    graph.setEdge(link.from, target.number, { width, height, labelpos: "c" });
  });
  if (!box.links.length) inLines(graph, box.kids.length);
  dagre.layout(graph);
  for (const kid of box.kids) {
    const { x, y } = graph.node(kid.number);
    Object.assign(kid, { x: x - kid.width / 2, y: y - kid.height / 2 + HEADER });
  }
  for (const link of box.links) {
    const { points, x, y } = graph.edge(link.from, link.target.number);
    link.points = points.map((point) => [point.x, point.y + HEADER]);
    Object.assign(link, { x, y: y + HEADER });
  }
  const { width, height } = graph.graph();
  Object.assign(box, { width: Math.max(width, own + 10), height: height + HEADER });
}

/* Boxes that do not need each other, in lines: as if each needed the one above it. */
function inLines(graph, count) {
  const across = Math.ceil(Math.sqrt(count));
  for (let each = across; each < count; each += 1) graph.setEdge(each - across, each, {});
}

function curve(points) {
  const [first, ...rest] = points.map(([x, y]) => [x.toFixed(1), y.toFixed(1)]);
  let path = `M${first}`;
  rest.forEach(([x, y], number) => {
    const next = rest[number + 1];
    if (!next) path += `L${x},${y}`;
    else path += `Q${x},${y} ${(+x + +next[0]) / 2},${(+y + +next[1]) / 2}`;
  });
  return path;
}

/* The graph in a frame: `chosen` is told what is clicked, a box or the values of an edge. */
class GraphView {
  constructor(frame, report, chosen) {
    this.boxes = new Boxes(report);
    this.chosen = chosen;
    this.mode = "axis";
    this.scene = svg("g", { class: "scene" });
    const tip = svg("path", { d: "M0,0 L8,4 L0,8 z", class: "tip" });
    const size = { viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7 };
    const arrow = svg("marker", { id: "arrow", orient: "auto", ...size }, tip);
    this.canvas = svg("svg", { class: "canvas", tabindex: 0, role: "application" });
    this.canvas.setAttribute("aria-label", "graph of the program");
    this.canvas.append(svg("defs", {}, arrow), this.scene);
    this.map = svg("svg", { class: "map", "aria-hidden": "true" });
    frame.replaceChildren(this.canvas, this.map);
    this.listen();
    new ResizeObserver(() => this.moved()).observe(this.canvas);
    this.boxes.unfold(this.boxes.root);
    for (let only = this.boxes.root; only.kids.length === 1 && only.kids[0].kids.length; ) {
      [only] = only.kids;
      this.boxes.unfold(only);
    }
    this.draw();
    this.fit();
  }

  draw() {
    const { root } = this.boxes;
    layOut(this.boxes, root);
    Object.assign(root, { x: 0, y: 0 });
    this.drawn = new Map();
    this.labels = [];
    this.ports = [];
    this.scene.replaceChildren(this.element(root));
    this.drawMap();
    this.colour();
    this.mark();
  }

  element(box) {
    const group = svg("g", { class: `box ${box.kind}${box.opened ? " open" : ""}` });
    group.setAttribute("transform", `translate(${box.x.toFixed(1)} ${box.y.toFixed(1)})`);
    const frame = svg("rect", { class: "frame", width: box.width, height: box.height, rx: 5 });
    const title = svg("text", { class: "title" }), small = svg("text", { class: "small" });
    const head = svg("g", { class: "head", tabindex: 0, role: "button" }, frame, title, small);
    if (box.kids.length) head.setAttribute("aria-expanded", box.opened > 0);
    head.prepend(svg("title", {}, `${box.title}\n${box.small}`));
    group.append(head);
    this.drawn.set(box, { group, frame, title, small });
    head.box = box;
    if (!box.opened) return group;
    group.append(...box.links.map((link) => this.line(link)), ...box.kids.map((kid) => this.element(kid)));
    group.append(...box.links.filter((link) => link.lines.length).map((link) => this.label(link, box)));
    return group;
  }

  line(link) {
    const line = svg("path", { class: "line", d: curve(link.points), "marker-end": "url(#arrow)" });
    const wide = svg("path", { class: "wide", d: curve(link.points) }, svg("title", {}, this.told(link)));
    const group = svg("g", { class: "value" }, line, wide);
    group.link = link;
    if (link.port) group.append(this.port(link.port));
    return group;
  }

  port({ x, y, width, height, title }) {
    const at = `translate(${x.toFixed(1)} ${(y + HEADER).toFixed(1)})`;
    const text = svg("text", { class: "small" });
    this.ports.push({ text, title, width });
    const back = svg("rect", { x: -width / 2, y: -height / 2, width, height, rx: height / 2 });
    return svg("g", { class: "port", transform: at }, back, text);
  }

  label(link, box) {
    const back = svg("rect", { width: link.width, height: link.height, rx: 3 });
    back.setAttribute("x", -link.width / 2);
    back.setAttribute("y", -link.height / 2);
    const text = svg("text", { class: "sharding" });
    link.lines.forEach((line, number) => {
      const y = (number - link.lines.length / 2) * LINE + 11.5;
      text.append(svg("tspan", { x: 0, y }, line));
    });
    const group = svg("g", { class: "label" }, svg("title", {}, this.told(link)), back, text);
    group.link = link;
    this.labels.push({ link, box, group });
    return group;
  }

  told({ values }) {
    const { types } = this.boxes.report;
    const lines = values.slice(0, 20).map(([name, type]) => [name, ...types[type].slice(0, 2)].join(" "));
    return lines.join("\n") + (values.length > 20 ? `\nand ${values.length - 20} more` : "");
  }

  /* Write texts at a size that can be read at this zoom: those for which there is room. */
  write() {
    const { k } = this.view, grown = Math.max(1, LEGIBLE / (SMALL * k));
    for (const [box, { title, small }] of this.drawn) {
      const room = (box.width - 20) / grown, high = (box.opened ? HEADER : box.height) / grown;
      const both = !box.opened && high >= BOX_HEIGHT - 1;
      const text = headOf(box);
      const found = high >= LINE ? clip(text, TITLE, room) : "";
      title.textContent = found.length > 6 || found === text ? found : "";
      small.textContent = both || box.opened ? this.beside(box, title.textContent, room) : "";
      const middle = (box.opened ? HEADER : box.height) / 2;
      const lines = both && small.textContent ? -4 : 4.5;
      title.setAttribute("transform", `translate(10 ${middle}) scale(${grown}) translate(0 ${lines})`);
      const x = box.opened ? widthOf(title.textContent, TITLE) + 12 : 0, y = box.opened ? 4.5 : 12;
      small.setAttribute("transform", `translate(10 ${middle}) scale(${grown}) translate(${x} ${y})`);
    }
    for (const { text, title, width } of this.ports) {
      text.setAttribute("transform", `scale(${grown}) translate(0 4)`);
      const found = 20 / grown >= LINE ? clip(title, SMALL, (width - 14) / grown) : "";
      text.textContent = found.length > 8 || found === title ? found : "";
    }
    this.writeLabels(grown);
  }

  beside(box, title, room) {
    if (!box.opened) return clip(box.small, SMALL, room);
    const left = room - widthOf(title, TITLE) - 12;
    return title && widthOf(box.small, SMALL) <= left ? box.small : "";
  }

  writeLabels(grown) {
    const placed = new Map(); // by open box
    for (const { link, box, group } of this.labels) {
      if (!placed.has(box)) placed.set(box, grown > 1 ? box.kids.map(areaOf) : []);
      const width = link.width * grown, height = link.height * grown;
      const area = { x: link.x - width / 2, y: link.y - height / 2, width, height };
      const isIn = area.x >= 2 && area.x + width <= box.width - 2;
      const isFree = grown === 1 || (isIn && !placed.get(box).some((each) => meet(each, area)));
      group.classList.toggle("hidden", !isFree);
      if (isFree) placed.get(box).push(area);
      group.setAttribute("transform", `translate(${link.x} ${link.y}) scale(${grown})`);
    }
  }

  /* Colours: of axes one each, of bytes and seconds the more the stronger. */
  colour() {
    const axes = this.axes();
    const most = Math.max(...this.boxes.laidOut().filter((box) => !box.opened).map((box) => this.weight(box)), 0);
    for (const [box, { frame }] of this.drawn) {
      let colour = "";
      if (!box.opened && this.mode === "axis" && box.axes.length) {
        colour = `color-mix(in srgb, var(--axis-${axes.indexOf(box.axes[0]) % 8}) 30%, var(--box))`;
      } else if (!box.opened && this.mode !== "axis" && most) {
        colour = `color-mix(in srgb, var(--network) ${Math.round((60 * this.weight(box)) / most)}%, var(--box))`;
      }
      frame.style.fill = colour;
    }
    this.most = most;
  }

  axes() {
    return [...new Set(this.boxes.report.communication.map((each) => each.axes.join(", ")))];
  }

  weight(box) {
    return this.mode === "bytes" ? box.bytes : box.seconds;
  }

  /* Mark the chosen box, and those with what is searched. */
  mark() {
    for (const [box, { group }] of this.drawn) {
      group.classList.toggle("shown", box === this.at);
      group.classList.toggle("found", Boolean(this.found && box.ops.some((op) => this.found.has(op))));
    }
  }

  drawMap() {
    const { root } = this.boxes;
    this.map.setAttribute("viewBox", `0 0 ${root.width} ${root.height}`);
    this.window = svg("rect", { class: "window" });
    const rects = [];
    const add = (box, x, y) => {
      const at = { x: x + box.x, y: y + box.y, width: box.width, height: box.height };
      rects.push(svg("rect", { class: box.opened ? "open" : box.kind, ...at }));
      if (box.opened) for (const kid of box.kids) add(kid, at.x, at.y);
    };
    add(root, 0, 0);
    this.map.replaceChildren(...rects, this.window);
  }

  get size() {
    return [this.canvas.clientWidth || 800, this.canvas.clientHeight || 500];
  }

  /* All of it, or where that would be too small to read the top of it. */
  fit(whole = false) {
    const [width, height] = this.size, { root } = this.boxes;
    const wide = width / root.width, high = height / root.height, all = Math.min(1, wide, high) * 0.98;
    const k = whole || all > 0.75 ? all : Math.max(Math.min(1, wide * 0.98), 0.83);
    const isInside = root.height * k <= height;
    const first = root.kids.find((kid) => kid.y === Math.min(...root.kids.map((each) => each.y))) || root;
    this.view = {
      k,
      x: root.width * k <= width ? (width - root.width * k) / 2 : width / 2 - k * (first.x + first.width / 2),
      y: isInside ? (height - root.height * k) / 2 : 8,
    };
    this.moved(true);
  }

  moved(zoomed = false) {
    if (!this.view) return;
    const { k, x, y } = this.view, [width, height] = this.size;
    this.scene.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
    const seen = { x: -x / k, y: -y / k, width: width / k, height: height / k };
    for (const [key, value] of Object.entries(seen)) this.window.setAttribute(key, value);
    const { root } = this.boxes, isAll = x >= 0 && y >= 0 && x + root.width * k <= width && y + root.height * k <= height;
    this.map.classList.toggle("hidden", isAll);
    if (zoomed) this.write();
  }

  zoom(by, x = this.size[0] / 2, y = this.size[1] / 2) {
    const k = Math.min(3, Math.max(0.03, this.view.k * by)), change = k / this.view.k;
    this.view = { k, x: x - (x - this.view.x) * change, y: y - (y - this.view.y) * change };
    this.moved(true);
  }

  pan(x, y) {
    this.view.x += x;
    this.view.y += y;
    this.moved();
  }

  placeOf(box) {
    let [x, y] = [0, 0];
    for (let each = box; each; each = each.parent) [x, y] = [x + each.x, y + each.y];
    return [x, y];
  }

  /* Unfold or fold a box, which stays where it is on the screen. */
  toggle(box) {
    const [x, y] = this.placeOf(box);
    if (box.opened && box.parent) box.opened = 0;
    else this.boxes.unfold(box);
    this.draw();
    const [newX, newY] = this.placeOf(box), { k } = this.view;
    this.pan((x - newX) * k, (y - newY) * k);
    this.write();
    this.drawn.get(box).group.firstChild.focus({ preventScroll: true });
  }

  /* Show a box in the middle, with all around it unfolded. */
  reveal(box) {
    const isFolded = box.parent && !this.boxes.isShown(box);
    if (box.parent) this.boxes.unfold(box.kids.length ? box : box.parent);
    this.at = box;
    if (isFolded || box.kids.length) this.draw();
    const [x, y] = this.placeOf(box), [width, height] = this.size;
    const k = Math.max(this.view.k, 0.8), high = Math.min(box.height * k, height - 20);
    const left = Math.min(box.width * k, width - 20);
    this.view = { k, x: (width - left) / 2 - x * k, y: (height - high) / 2 - y * k };
    this.moved(true);
    this.mark();
  }

  search(text) {
    const words = text.toLowerCase().split(" ").filter(Boolean), { report } = this.boxes;
    this.found = null;
    if (!words.length) return this.mark(), [];
    const hits = this.boxes.all.filter((box) => {
      box.words ??= this.wordsOf(box, report);
      return words.every((word) => box.words.includes(word));
    });
    this.found = new Set(hits.filter((box) => !box.kids.length).map((box) => box.ops[0]));
    this.mark();
    return hits;
  }

  wordsOf(box, { ops, types, communication }) {
    if (box.kids.length) return box.title.toLowerCase();
    const op = ops[box.ops[0]];
    const values = op.outputs.flatMap(([name, type]) => [name, ...types[type].slice(0, 2)]);
    const sent = op.sends.flatMap((each) => [`#${each + 1}`, communication[each].kind, ...communication[each].axes]);
    return [op.name, op.location || "", ...values, ...sent].join(" ").toLowerCase();
  }

  listen() {
    const { canvas: svgElement, map } = this;
    let from = null;
    svgElement.addEventListener("pointerdown", (event) => {
      from = { x: event.clientX, y: event.clientY, moved: false };
    });
    svgElement.addEventListener("pointermove", (event) => {
      if (!from || !event.buttons) return;
      const [x, y] = [event.clientX - from.x, event.clientY - from.y];
      if (!from.moved && Math.hypot(x, y) < 4) return;
      svgElement.setPointerCapture(event.pointerId);
      from = { x: event.clientX, y: event.clientY, moved: true };
      this.pan(x, y);
    });
    svgElement.addEventListener("click", (event) => {
      if (!from?.moved) this.act(event.target);
      from = null;
    });
    svgElement.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !svgElement.matches(":focus-within")) return;
      event.preventDefault();
      const { left, top } = svgElement.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY / 400), event.clientX - left, event.clientY - top);
    }, { passive: false });
    svgElement.addEventListener("keydown", (event) => this.key(event));
    const jump = (event) => {
      if (!event.buttons) return;
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
      const [width, height] = this.size, { k } = this.view;
      this.view = { k, x: width / 2 - at.x * k, y: height / 2 - at.y * k };
      this.moved();
    };
    map.addEventListener("pointerdown", jump);
    map.addEventListener("pointermove", jump);
  }

  act(target) {
    const { box } = target.closest(".head") || {}, { link } = target.closest(".value, .label") || {};
    if (box?.kids.length) this.toggle(box);
    else if (box) this.chosen(box, null);
    else if (link?.values.length) this.chosen(null, link);
  }

  key(event) {
    const moves = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (moves[event.key]) this.pan(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit(true);
    else if (event.key === "Enter" || event.key === " ") this.act(event.target);
    else return;
    event.preventDefault();
  }
}

function areaOf({ x, y, width, height }) {
  return { x, y, width, height };
}

function meet(one, other) {
  return one.x < other.x + other.width && other.x < one.x + one.width
    && one.y < other.y + other.height && other.y < one.y + one.height;
}
