"use strict";
/* The page: the answer first, then the graph, the tables and the charts of a report. */

const { changes, reports } = JSON.parse(document.getElementById("data").textContent);
const isPair = reports.length > 1;
const ROWS = 100; // of a table at first, and more with each click

/* Numbers for people. */
function scaled(number, units, step) {
  let unit = 0;
  for (; Math.abs(number) >= step && unit < units.length - 1; unit += 1) number /= step;
  return `${+number.toPrecision(4)}${units[unit]}`;
}
const bytesText = (number) => scaled(number, [" bytes", " KiB", " MiB", " GiB", " TiB"], 1024);
const countText = (number) => scaled(number, ["", " k", " M", " G", " T"], 1000);
function timeText(seconds) {
  for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) {
    if (seconds >= size) return `${+(seconds / size).toPrecision(3)} ${unit}`;
  }
  return seconds > 0 && seconds < 1e-9 ? "under 1 ns" : `${+(seconds * 1e9).toPrecision(3)} ns`;
}
const shareText = (part, whole) => `${whole ? Math.round((100 * part) / whole) : 0}%`;
const signed = (number, text) => (number > 0 ? "+" : number < 0 ? "−" : "±") + text(Math.abs(number));

function el(name, attributes = {}, ...kids) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) element.setAttribute(key, value);
  }
  element.append(...kids.filter((kid) => kid !== null && kid !== undefined));
  return element;
}
/* A place in an installed library is told from the library on; what is pointed at says the rest. */
const placeText = (location) => (location || "").replace(/^.*\/(?:site|dist)-packages\//, "");
const code = (location) => (location ? el("code", { title: location }, placeText(location)) : "");

let shown = reports.length - 1; // of two, the later one
let report, view;
const linkTo = (id) => `#${isPair && shown === 0 ? "before/" : ""}${encodeURIComponent(id)}`;
const link = (id, ...kids) => el("a", { href: linkTo(id) }, ...kids);

/* On paper nothing is folded or filtered: tables draw themselves whole before the page is printed. */
const paper = matchMedia("print");
let isPrinted = paper.matches;
let tables = [];
function printing(isOn) {
  isPrinted = isOn;
  tables = tables.filter(({ body }) => body.isConnected);
  for (const { draw } of tables) draw();
}
paper.addEventListener("change", () => printing(paper.matches));
addEventListener("beforeprint", () => printing(true));
addEventListener("afterprint", () => printing(false));

/* Tables: a column is its head and what a row has there, as a number or a text, and how it is told. */
function table(rows, columns, { row = () => ({}), filter = rows.length > 8, sorted = null } = {}) {
  let order = sorted, most = ROWS, words = [];
  const cell = (each, column) => (column.text ? column.text(each) : column.value(each) ?? "");
  const plain = (each) => columns.map((column) => [column.value(each), column.search?.(each)]).flat().join(" ");
  const body = el("tbody"), more = el("button", { type: "button", class: "more" }), count = el("span");
  const heads = columns.map((column) => {
    const button = el("button", { type: "button" }, column.head);
    button.addEventListener("click", () => {
      const isSame = order && order.column === column;
      order = { column, down: isSame ? !order.down : Boolean(column.number) };
      draw();
    });
    return el("th", { scope: "col", class: column.number ? "number" : undefined }, button);
  });
  const field = el("input", { type: "search", placeholder: "filter", "aria-label": "filter the rows" });
  field.addEventListener("input", () => {
    words = field.value.toLowerCase().split(" ").filter(Boolean);
    draw();
  });
  more.addEventListener("click", () => { most += 10 * ROWS; draw(); });
  function draw() {
    let found = words.length && !isPrinted
      ? rows.filter((each) => words.every((word) => plain(each).toLowerCase().includes(word)))
      : [...rows];
    if (order) {
      const { column: { value, number }, down } = order;
      const compare = number ? (a, b) => value(a) - value(b) : (a, b) => `${value(a)}`.localeCompare(`${value(b)}`);
      found.sort((a, b) => (down ? compare(b, a) : compare(a, b)));
    }
    heads.forEach((head, number) => {
      const isOrder = order && order.column === columns[number];
      if (isOrder) head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    count.textContent = words.length ? `${found.length} of ${rows.length}` : "";
    more.hidden = isPrinted || found.length <= most;
    more.textContent = `${found.length - most} more`;
    found = (isPrinted ? found : found.slice(0, most)).map((each) =>
      el("tr", row(each), ...columns.map((column) => el("td", { class: column.number ? "number" : column.class }, cell(each, column)))));
    body.replaceChildren(...found);
  }
  draw();
  tables.push({ body, draw });
  const whole = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body);
  const tools = filter ? el("p", { class: "tools" }, field, " ", count) : null;
  return el("div", { class: "table" }, tools, whole, more);
}

/* The answer. */
function costliest({ communication, alike }) {
  const classes = new Map();
  communication.forEach((each, number) => {
    const found = classes.get(alike[number]) || { numbers: [], seconds: 0, bytes: 0 };
    classes.set(alike[number], found);
    found.numbers.push(number);
    found.seconds += each.seconds;
    found.bytes += each.bytes;
  });
  return [...classes.values()].sort((a, b) => b.seconds - a.seconds).slice(0, 5);
}

function whyText({ why }) {
  const [first, ...rest] = why;
  const places = rest.filter((step) => step.annotation)
    .map((step) => step.location || step.text.split(": ").pop().replace(/^annotated (on )?/, ""));
  const annotated = [...new Set(places)].flatMap((place, number) => [number ? ", " : "; annotated at ", code(place)]);
  return el("p", {}, first.text, ...(first.location ? [" at ", code(first.location)] : []), ...annotated);
}

function removalText(each, asked) {
  if (!asked) return null;
  if (each.not_tried) return el("p", { class: "without" }, each.not_tried.why);
  if (each.none_better) return el("p", { class: "without" }, "No change of one annotation that removes it makes the program faster.");
  if (!each.removal) return el("p", { class: "without" }, "No change of one annotation removes it.");
  const { what, before, after } = each.removal;
  const change = (value, text) => value ? `${text(Math.abs(value))} ${value < 0 ? "less" : "more"}` : "as much";
  const sent = change(each.removal.bytes_change, bytesText);
  const stored = change(each.removal.memory_change, bytesText);
  const taken = change(each.removal.seconds_change, timeText);
  return el("p", { class: "without" }, "Without it: ", el("b", {}, what),
    ` as ${after}, not ${before}; a device then sends ${sent}, stores ${stored} and takes ${taken}.`);
}

function proofText(proof) {
  return proof ? el("p", {}, el("b", {}, proof.answer), proof.text.slice(proof.answer.length)) : null;
}

function answer(of, named) {
  const { communication, seconds, memory, asked } = of;
  const items = costliest(of).map(({ numbers, ...sum }) => {
    const each = communication[numbers[0]];
    const title = link(`collective-${numbers[0] + 1}`, `#${numbers[0] + 1} ${each.kind}`);
    const often = numbers.length > 1 ? ` and ${numbers.length - 1} like it` : "";
    const along = each.axes.length ? ` along ${each.axes.join(", ")}` : "";
    const costs = `${timeText(sum.seconds)}, ${shareText(sum.seconds, seconds.total)} of the time; ${bytesText(sum.bytes)}`;
    return el("li", {}, el("b", {}, title, along, often), ` ${costs}`, whyText(each), removalText(each, asked));
  });
  const most = el("div", { class: "most" }, el("h2", {}, "What costs most"),
    items.length ? el("ol", {}, ...items) : el("p", {}, "No communication."),
    items.length && !asked && !isPair ? el("p", { class: "hint" }, "With ", el("code", {}, "--suggest"), " the page says what would remove them.") : null);
  return el("div", { class: "answer" }, named, most, el("div", { class: "sums" }, timeBars(seconds), memoryBars(memory)));
}

function bar(label, value, whole, told, parts = [["", value]]) {
  const fills = parts.map(([kind, part]) => el("span", { class: kind, style: `width: ${whole ? (100 * part) / whole : 0}%` }));
  return el("div", { class: "bar" }, el("span", { class: "label", title: label }, label), el("span", { class: "told" }, told), el("div", { class: "fill" }, ...fills));
}

function timeBars({ total, exposed_communication: exposed, overlapped_total: overlapped, critical_path: chain }) {
  return el("div", {}, el("h2", {}, "Time"),
    bar("as written", total, total, timeText(total), [["compute", total - exposed], ["network", exposed]]),
    legend([["compute", `computing ${timeText(total - exposed)}`], ["network", `waiting ${timeText(exposed)}`]]),
    bar("with collectives beside other ops", overlapped, total, timeText(overlapped), [["compute", overlapped]]),
    bar("the longest chain of ops", chain, total, timeText(chain), [["quiet", chain]]));
}

function memoryBars({ peak, live_at_peak: live }) {
  const rest = live.slice(7).reduce((sum, each) => sum + each.bytes, 0);
  const bars = live.slice(0, 7).map((each) => bar(`${each.name} ${each.type}`, each.bytes, peak, bytesText(each.bytes), [[each.kind, each.bytes]]));
  if (rest) bars.push(bar(`${live.length - 7} more`, rest, peak, bytesText(rest), [["quiet", rest]]));
  const kinds = [...new Set(live.map((each) => each.kind))].map((kind) => [kind, kind]);
  return el("div", {}, el("h2", {}, `Memory at the peak: ${bytesText(peak)}`), legend(kinds), ...bars);
}

function legend(items) {
  return el("p", { class: "legend" }, ...items.map(([kind, text]) => el("span", {}, el("i", { class: kind }), text)));
}

/* The panel: what is chosen. */
const panel = el("aside", { id: "panel", "aria-live": "polite", hidden: "" });
/* The panel takes room from the rest, whose lines break anew: what was clicked stays where it was. */
function keepingPlace(change) {
  const isSeen = (each) => each?.closest("main") && each.getBoundingClientRect().top > 0 && each.getBoundingClientRect().top < innerHeight;
  const seen = [document.activeElement, document.elementFromPoint(innerWidth / 3, innerHeight / 2)].find(isSeen);
  const before = seen?.getBoundingClientRect().top;
  change();
  if (seen?.isConnected) scrollBy(0, seen.getBoundingClientRect().top - before);
}

function show(id, title, ...kids) {
  const close = el("button", { type: "button", class: "close", "aria-label": "close" }, "×");
  close.addEventListener("click", hide);
  panel.replaceChildren(close, el("h2", {}, title), ...kids.filter(Boolean));
  keepingPlace(() => { panel.hidden = false; });
  panel.scrollTop = 0;
  for (const each of document.querySelectorAll("tr.shown")) each.classList.remove("shown");
  for (const each of document.querySelectorAll("tr[data-id]")) each.classList.toggle("shown", each.dataset.id === id);
  if (id) history.replaceState(null, "", linkTo(id));
}

function hide() {
  keepingPlace(() => { panel.hidden = true; });
  for (const each of document.querySelectorAll("tr.shown")) each.classList.remove("shown");
}

function showCollective(number) {
  const each = report.communication[number];
  const steps = each.why.map(({ text, location }) => el("li", {}, text, " ", code(location)));
  const readers = each.readers.map(({ text, location }) => el("li", {}, text, " ", code(location)));
  show(`collective-${number + 1}`, `#${number + 1} ${each.kind}`,
    el("p", {}, `along ${each.axes.join(", ")}, ${each.group} devices; ${each.operand} to ${each.result}; ${bytesText(each.bytes)} in ${timeText(each.seconds)}${each.times === 1 ? "" : `, ${each.times} times`} `, code(each.location)),
    el("h3", {}, "Why"), el("ol", { class: "why" }, ...steps),
    ...(readers.length > 1 ? [el("h3", {}, "Shared by"), el("ul", {}, ...readers)] : []),
    removalText(each, report.asked));
}

function drawing(number) {
  const element = el("div", { class: "drawing" });
  if (number !== null) element.innerHTML = report.drawings[number]; // ours: escaped by what drew it
  return element;
}

function showTensor(number) {
  const { name, shape, sharding, location, drawing: drawn } = report.tensors[number];
  show(`tensor-${name}`, name, el("p", {}, `${shape} as ${sharding} `, code(location)), drawing(drawn));
}

function valueRows(values) {
  return values.flatMap(([name, type]) => {
    const [text, sharding, drawn] = report.types[type];
    return [el("p", {}, el("b", {}, name), ` ${text} `, el("span", { class: "sharded" }, sharding)), drawn === null ? null : drawing(drawn)];
  }).filter(Boolean);
}

function showOp(number) {
  const op = report.ops[number];
  const inputs = op.inputs.map(([source, output]) => report.ops[source].outputs[output]).filter(Boolean);
  show(`op-${number}`, op.name, el("p", {}, timeText(op.seconds), op.live === null ? "" : `; ${bytesText(op.live)} live meanwhile`, " ", code(op.location)),
    inputs.length ? el("h3", {}, "Reads") : null, ...valueRows(inputs),
    op.outputs.length ? el("h3", {}, "Makes") : null, ...valueRows(op.outputs));
}

function showChosen(box, edge) {
  if (edge) show(null, "Passed on", ...valueRows(edge.values.slice(0, 20)));
  else if (box.kind === "collective") showCollective(box.sends[0]);
  else showOp(box.ops[0]);
  view.at = box;
  view.mark();
}

/* The graph, with what stands around it. */
function graphSection() {
  if (!report.ops.length) return section("program", "Program", el("p", {}, "The program is on buffers: an earlier form has a graph."));
  const frame = el("div", { class: "frame", id: "graph" });
  const button = (text, name, act) => {
    const made = el("button", { type: "button", title: name, "aria-label": name }, text);
    made.addEventListener("click", act);
    return made;
  };
  const modes = el("select", { id: "colour", "aria-label": "colour by" },
    ...["axis", "bytes", "time"].map((mode) => el("option", { value: mode }, `colour by ${mode}`)));
  const key = el("span", { class: "legend", id: "key" });
  const field = el("input", { id: "search", type: "search", placeholder: "name, type or axis", "aria-label": "search the graph", autocomplete: "off" });
  const hits = el("ul", { id: "hits", hidden: "" });
  view = null;
  const tools = el("div", { class: "tools" }, el("span", { class: "search" }, field, hits),
    button("+", "zoom in (+)", () => view.zoom(1.25)), button("−", "zoom out (−)", () => view.zoom(0.8)),
    button("fit", "show all of it (0)", () => view.fit(true)), modes, key);
  modes.addEventListener("change", () => { view.mode = modes.value; view.colour(); key.replaceChildren(...keyOf()); });
  field.addEventListener("input", () => {
    const found = view.search(field.value);
    const items = found.slice(0, 30).map((box) => {
      const around = box.parent?.path.join(" / ");
      const item = button(el("b", {}, box.title), "show it", () => { hits.hidden = true; view.reveal(box); if (!box.kids.length) showChosen(box, null); });
      item.append(` ${box.small} ${around ? `in ${around}` : ""}`);
      return el("li", {}, item);
    });
    if (found.length > 30) items.push(el("li", {}, `and ${found.length - 30} more`));
    hits.replaceChildren(...(items.length ? items : [el("li", {}, "nothing")]));
    hits.hidden = !field.value;
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") hits.querySelector("button")?.click();
    if (event.key === "Escape") hits.hidden = true;
  });
  const made = section("program", "Program", el("p", { class: "hint" },
    "At an edge is the sharding of what is passed on. Click a layer to unfold it, an op, a collective or an edge for more. ",
    "Drag to move; ", el("kbd", {}, "+"), " ", el("kbd", {}, "−"), " or Ctrl and the wheel to zoom, ", el("kbd", {}, "0"), " for all of it, ",
    el("kbd", {}, "/"), " to search."),
    el("p", { class: "printed" }, "The graph is not printed: open the page to see it."), tools, frame);
  made.begin = () => {
    view = new GraphView(frame, report, showChosen);
    key.replaceChildren(...keyOf());
  };
  return made;
}

function keyOf() {
  const swatch = (colour, text) => el("span", {}, el("i", { style: `background: ${colour}` }), text);
  if (view.mode !== "axis") {
    const told = view.mode === "bytes" ? bytesText : timeText;
    return [el("span", {}, told(0), el("i", { class: "ramp" }), told(view.most))];
  }
  const axes = view.axes().slice(0, 8);
  return axes.map((text, number) => swatch(`var(--axis-${number})`, text || "no axis"));
}

/* Charts over the program: `at` gives what is under the mouse, by its share of the width. */
function chart(drawn, marks, at, first) {
  const picture = svg("svg", { viewBox: "0 0 1000 200", preserveAspectRatio: "none" }, ...drawn);
  const moment = svg("rect", { class: "moment", y: 0, height: 200 });
  const told = el("p", { class: "told" });
  picture.append(moment);
  const point = (share) => {
    const found = at(share);
    if (!found) return;
    moment.setAttribute("x", 1000 * found.start);
    moment.setAttribute("width", Math.max(1, 1000 * (found.end - found.start)));
    told.textContent = found.text;
  };
  picture.addEventListener("mousemove", (event) => {
    const { left, width } = picture.getBoundingClientRect();
    point(Math.min(0.999999, Math.max(0, (event.clientX - left) / width)));
  });
  point(first);
  return el("div", { class: "chart" }, el("div", { class: "picture" }, picture, ...marks), told);
}

function memoryChart({ peak, moments, kinds }) {
  const count = moments.length, below = new Array(count).fill(0), areas = [];
  for (const [kind, values] of Object.entries(kinds)) {
    if (!values.some(Boolean)) continue;
    const step = (heights) => heights.flatMap((height, number) => [number, number + 1].map((x) =>
      `${((1000 * x) / count).toFixed(2)},${(200 * (1 - height / (peak || 1))).toFixed(2)}`));
    const top = below.map((height, number) => height + values[number]);
    areas.push(svg("polygon", { class: kind === "temporaries" ? "temporary" : kind.slice(0, -1), points: [...step(top), ...step(below).reverse()].join(" ") }));
    top.forEach((height, number) => { below[number] = height; });
  }
  const marks = [0, 0.25, 0.5, 0.75, 1].map((share) =>
    el("span", { class: "tick y", style: `bottom: ${100 * share}%` }, bytesText(Math.floor(peak * share))));
  const every = Math.max(1, Math.ceil(count / 6));
  for (let each = 0; each < count; each += every) marks.push(el("span", { class: "tick x", style: `left: ${(100 * each) / count}%` }, each));
  const at = (share) => {
    const number = Math.floor(share * count);
    if (!moments[number]) return null;
    const [op, location, bytes] = moments[number];
    const parts = Object.entries(kinds).filter(([, values]) => values[number]).map(([kind, values]) => `${kind} ${bytesText(values[number])}`);
    return { start: number / count, end: (number + 1) / count, text: `op ${number}, ${op}: ${bytesText(bytes)}, of these ${parts.join(", ")}; ${placeText(location)}` };
  };
  const highest = moments.reduce((best, each, number) => (each[2] > (moments[best]?.[2] ?? -1) ? number : best), 0);
  return chart(areas, marks, at, (highest + 0.5) / (count || 1));
}

function timeChart({ events, seconds: { total } }) {
  const paths = new Map(), whole = total || 1;
  for (const [, , , start, seconds, bound] of events) {
    const x = (1000 * start) / whole, width = Math.max((1000 * seconds) / whole, 0.3), y = bound === "network" ? 105 : 0;
    paths.set(bound, `${paths.get(bound) || ""}M${x.toFixed(2)} ${y}h${width.toFixed(2)}v95h${-width.toFixed(2)}z`);
  }
  const drawn = [...paths].map(([bound, d]) => svg("path", { class: bound, d }));
  const at = (share) => {
    const found = events.findLast(([, , , start]) => start <= share * whole);
    if (!found) return null;
    const [name, location, result, start, seconds, bound, times] = found;
    return { start: start / whole, end: (start + seconds) / whole, text: `${name} ${result}: ${timeText(seconds)}, bound by ${bound}${times > 1 ? `, ${times} times` : ""}; ${placeText(location)}` };
  };
  const longest = events.reduce((best, each) => (each[4] > (best?.[4] ?? -1) ? each : best), null);
  const marks = [el("span", { class: "tick y", style: "bottom: 75%" }, "compute"), el("span", { class: "tick y", style: "bottom: 25%" }, "network")];
  return chart(drawn, marks, at, longest ? (longest[3] + longest[4] / 2) / whole : 0);
}

/* Sections. */
function section(id, title, ...kids) {
  return el("section", { id }, el("h2", {}, link(id, title)), ...kids);
}

const bytes = (head, value) => ({ head, value, number: true, text: (each) => bytesText(value(each)) });
const time = (head, value) => ({ head, value, number: true, text: (each) => timeText(value(each)) });
const count = (head, value) => ({ head, value, number: true, text: (each) => countText(value(each)) });
const text = (head, value, told) => ({ head, value, text: told });
const long = (head, value, told) => ({ head, value, text: told, class: "long" });
const place = (head = "at") => ({ head, value: (each) => placeText(each.location), class: "long place" });

function communicationTable() {
  const rows = report.communication.map((each, number) => ({ ...each, number: number + 1 }));
  if (!rows.length) return el("p", {}, "none");
  const often = (each) => (each.times === 1 ? "" : ` x${each.times}`) + (each.open_loop ? " x?" : "");
  return table(rows, [
    { head: "collective", value: (each) => each.number, number: false, search: (each) => `#${each.number} ${each.kind}`,
      text: (each) => link(`collective-${each.number}`, `#${each.number} ${each.kind}${often(each)}`) },
    text("along", (each) => each.axes.join(", ")), { ...count("devices", (each) => each.group) },
    text("operand", (each) => each.operand), text("result", (each) => each.result),
    bytes("sent", (each) => each.bytes), time("time", (each) => each.seconds), place(),
  ], { row: (each) => ({ "data-id": `collective-${each.number}` }) });
}

function tensorTable() {
  if (!report.tensors.length) return el("p", {}, "The program comes without shardings of its tensors.");
  return table(report.tensors, [
    long("name", (each) => each.name, (each) => link(`tensor-${each.name}`, each.name)),
    text("shape", (each) => each.shape), text("sharding", (each) => each.sharding), place(),
  ], { row: (each) => ({ "data-id": `tensor-${each.name}` }), filter: true });
}

function render() {
  report = reports[shown];
  const { memory, seconds, compute } = report;
  const figures = [["a device sends", bytesText(report.bytes)], ["as written it takes", timeText(seconds.total)],
    ["overlapped", timeText(seconds.overlapped_total)], ["memory at the peak", bytesText(memory.peak)],
    ["operations", countText(compute.flops)], ["repeated elsewhere", countText(compute.repeated_flops)]];
  const names = [["program", "Program"], ["communication", "Communication"], ["tensors", "Tensors"], ["memory", "Memory"], ["time", "Time"], ["compute", "Compute"]];
  const header = el("header", {}, el("h1", {}, `@${report.entry}`),
    el("p", {}, `on ${report.devices} devices, times on ${report.device_model}`),
    proofText(report.proof),
    el("dl", { class: "figures" }, ...figures.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    el("nav", {}, ...names.map(([id, name]) => link(id, name))));
  const graph = graphSection();
  const parts = [
    graph,
    section("communication", "Communication", communicationTable()),
    section("tensors", "Tensors", tensorTable()),
    section("memory", "Memory", el("p", { class: "hint" }, "Live bytes while each op runs, in the order of the program."), memoryChart(memory),
      legend([["argument", `arguments ${bytesText(memory.arguments)}`], ["result", `results ${bytesText(memory.results)}`],
        ...(memory.constants ? [["constant", `constants ${bytesText(memory.constants)}`]] : []),
        ["temporary", `temporaries: at most ${bytesText(memory.temporaries)}`]]),
      el("p", { class: "hint" }, `At the peak ${bytesText(memory.peak)}.`, memory.donated ? ` ${bytesText(memory.donated)} of the results are in donated arguments.` : ""),
      el("h3", {}, "Live at the peak"),
      table(memory.live_at_peak, [bytes("size", (each) => each.bytes), text("kind", (each) => each.kind), long("value", (each) => each.name), text("type", (each) => each.type), place("from")])),
    section("time", "Time", el("p", { class: "hint" }, `As written: ${timeText(seconds.total)}. With collectives beside other ops: ${timeText(seconds.overlapped_total)}. The longest chain of ops: ${timeText(seconds.critical_path)}.`),
      timeChart(report), legend([["compute", "bound by arithmetic"], ["memory", "by memory"], ["network", "by the network"]])),
    section("compute", "Compute", table(compute.ops, [count("operations", (each) => each.flops), count("repeated", (each) => each.repeated_flops),
      text("op", (each) => each.name), text("result", (each) => each.result), text("bound by", (each) => each.bound), count("times", (each) => each.times), place()])),
  ];
  if (isPair) {
    document.body.replaceChildren(pairHeader(), el("div", { class: "columns" }, el("main", {}, header, ...parts), panel));
  } else {
    document.body.replaceChildren(header, el("div", { class: "columns" }, el("main", {}, el("section", { id: "answer" }, answer(report)), ...parts), panel));
  }
  hide();
  graph.begin?.();
}

/* Two reports: what changed, both answers, and the choice of one for the rest of the page. */
function pairHeader() {
  const plain = (number) => number.toLocaleString("en");
  const rows = [["time as written", ...reports.map((each) => each.seconds.total), timeText],
    ...changes.map(([name, before, after]) => [name === "repeated_flops" ? "repeated flops" : name, before, after, plain])];
  const number = (head, value, told) => ({ head, value, number: true, text: (each) => told(value(each), each[3]) });
  const choices = ["before", "after"].map((name, index) => {
    const choice = el("button", { type: "button", "aria-pressed": index === shown }, name);
    choice.addEventListener("click", () => { shown = index; render(); });
    return choice;
  });
  return el("section", { id: "changes" }, el("h1", {}, `@${report.entry}: two programs, and what changed`),
    table(rows, [text("", (each) => each[0]), number("before", (each) => each[1], (value, told) => told(value)),
      number("after", (each) => each[2], (value, told) => told(value)), number("change", (each) => each[2] - each[1], signed)], { filter: false }),
    el("h2", {}, "Collectives"), changedCollectives(),
    el("div", { class: "pair" }, ...reports.map((each, index) => answer(each, el("h2", { class: "which" }, ["Before", "After"][index])))),
    el("p", { class: "choices" }, "The rest of the page shows the program ", ...choices));
}

function changedCollectives() {
  const found = new Map();
  reports.forEach(({ communication }, index) => {
    for (const { kind, axes, location, bytes: sent, seconds } of communication) {
      const key = [kind, axes.join(", "), location].join("|");
      if (!found.has(key)) found.set(key, { kind, axes: axes.join(", "), location, counts: [0, 0], bytes: [0, 0], seconds: [0, 0] });
      const row = found.get(key);
      row.counts[index] += 1;
      row.bytes[index] += sent;
      row.seconds[index] += seconds;
    }
  });
  const state = ({ counts: [before, after] }) => (!before ? "new" : !after ? "gone" : before === after ? "stays" : `${before} to ${after}`);
  const rows = [...found.values()].sort((a, b) => Math.abs(b.seconds[1] - b.seconds[0]) - Math.abs(a.seconds[1] - a.seconds[0]));
  return table(rows, [text("", state), text("collective", (each) => each.kind), text("along", (each) => each.axes),
    bytes("sent before", (each) => each.bytes[0]), bytes("after", (each) => each.bytes[1]), time("time before", (each) => each.seconds[0]), time("after", (each) => each.seconds[1]), place()],
    { row: (each) => ({ class: `change-${state(each)}` }) });
}

/* Links: to a row, a tensor, a layer, an op, or a section. */
function follow() {
  let id = decodeURIComponent(location.hash.slice(1));
  const wanted = isPair && id.startsWith("before/") ? 0 : reports.length - 1;
  if (wanted !== shown && id) { shown = wanted; render(); }
  id = id.replace(/^before\//, "");
  const [kind, ...rest] = id.split("-"), name = rest.join("-");
  const box = view?.boxes.all.find((each) => each.id === id || (kind === "collective" && each.kind === kind && each.sends.includes(name - 1)));
  if (kind === "collective" && report.communication[name - 1]) showCollective(name - 1);
  else if (kind === "tensor") {
    const number = report.tensors.findIndex((each) => each.name === name);
    if (number >= 0) showTensor(number);
  } else if (kind === "op" && box) showOp(+name);
  else if (!box) document.getElementById(id)?.scrollIntoView();
  if (!box) return;
  view.reveal(box);
  if (kind === "layer" || kind === "op") document.getElementById("program").scrollIntoView();
}

addEventListener("hashchange", follow);
document.addEventListener("click", (event) => { // the same link again
  const target = event.target.closest("a[href^='#']");
  if (target && target.hash === location.hash) follow();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hide();
  if (event.key === "/" && event.target.tagName !== "INPUT") {
    event.preventDefault();
    document.getElementById("search")?.focus();
  }
});
render();
follow();
