"use strict";
const F = JSON.parse(document.getElementById("figures").textContent), I = F.info;
const at = (id) => document.getElementById(id);
const make = (tag, text, kind) => {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (kind) e.className = kind;
  return e;
};
function size(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let u = 0, v = n;
  while (v >= 1024 && u < units.length - 1) { v /= 1024; u++; }
  return (u === 0 || v >= 100 ? Math.round(v) : v >= 10 ? v.toFixed(1) : v.toFixed(2)) + " " + units[u];
}
const count = (n) => n.toLocaleString("en");
const ratio = (a, b) => (b ? (a / b).toFixed(2) : "–");
const share = (a, b) => (b ? (100 * a / b).toFixed(1) + " %" : "–");
// Columns: [title, "n" for numbers, "b" for bars (a share from 0 to 1), else text].
function table(into, columns, rows, caption) {
  const t = make("table");
  if (caption) { const c = make("caption", caption); c.style.textAlign = "left"; t.append(c); }
  const head = make("tr");
  for (const [title, kind] of columns) {
    const th = make("th", title, kind);
    th.scope = "col";
    head.append(th);
  }
  const thead = make("thead"), body = make("tbody");
  thead.append(head);
  for (const row of rows) {
    const tr = make("tr");
    row.forEach((cell, i) => {
      const kind = columns[i][1], td = make("td", kind === "b" ? undefined : cell, kind);
      if (kind === "b") {
        const bar = make("span", undefined, "bar");
        bar.style.width = Math.max(0, Math.min(100, 100 * cell)) + "%";
        bar.setAttribute("role", "img");
        bar.setAttribute("aria-label", (100 * cell).toFixed(1) + " %");
        td.append(bar);
      }
      tr.append(td);
    });
    body.append(tr);
  }
  t.append(thead, body);
  at(into).append(rows.length ? t : make("p", "None."));
}
const files = I.snapshots.reduce((sum, s) => sum + s.file_bytes, 0);
const newest = I.snapshots[I.snapshots.length - 1];
at("lead").textContent = `${size(files)} in ${count(newest ? newest.entries : 0)} entries, stored in ` +
  `${size(I.image_bytes)}: ratio ${ratio(files, I.image_bytes)}.`;
const facts = [["image", `${size(I.image_bytes)} (${count(I.image_bytes)} bytes), format ${I.format_version}`]];
if (I.label) facts.push(["label", I.label]);
facts.push(["contents", `${size(files)} in files, ${count(I.contents)} distinct contents`],
  ["stored as", `${count(I.frames)} frames, ${size(I.plain_bytes)} plain, ${size(I.stored_bytes)} stored`],
  ["random read", `decodes ${size(I.read_bytes_mean)} on average, at most ${size(I.bounds.read_bytes_max)}`],
  ["made with", I.history.length ? I.history[I.history.length - 1] : "not recorded"]);
if (I.recovered) facts.push(["damage", `the end of the image is damaged: ${I.recovered}`]);
table("summary", [["", "k"], ["", ""]], facts);

// The map: parent, name, plain, stored, files.
const D = F.directories.map(([parent, name, plain, stored, n], i) =>
  ({ i, parent, name, plain, stored, n, below: [] }));
for (const d of D) if (d.i > 0) D[d.parent].below.push(d);
let key = "stored", here = 0;
const pathOf = (d) => (d.i === 0 ? "/" : (d.parent === 0 ? "" : pathOf(D[d.parent])) + "/" + d.name);
// Squarified treemap (Bruls, Huizing, van Wijk 2000): rows along the shorter side while they get more square.
function squarify(items, x, y, w, h, place) {
  let total = items.reduce((s, d) => s + d.value, 0), from = 0;
  while (from < items.length && total > 0 && w > 0 && h > 0) {
    const side = Math.min(w, h), scale = w * h / total;
    let sum = 0, to = from, worst = Infinity;
    while (to < items.length) {
      const next = sum + items[to].value, thick = next * scale / side;
      let bad = 0;
      for (const v of [items[from].value, items[to].value]) {
        const long = v * scale / thick;
        bad = Math.max(bad, long / thick, thick / long);
      }
      if (bad > worst) break;
      worst = bad; sum = next; to++;
    }
    const thick = sum * scale / side;
    let along = 0;
    for (; from < to; from++) {
      const long = items[from].value * scale / thick;
      if (w >= h) place(items[from], x, y + along, thick, long);
      else place(items[from], x + along, y, long, thick);
      along += long;
    }
    if (w >= h) { x += thick; w -= thick; } else { y += thick; h -= thick; }
    total -= sum;
  }
}
function go(to, focus) {
  here = to;
  draw();
  if (!focus) return;
  const first = at("map").querySelector("button") || at("crumbs").querySelector("button");
  if (first) first.focus();
}
function draw() {
  const map = at("map"), d = D[here], crumbs = at("crumbs");
  map.textContent = ""; crumbs.textContent = "";
  at("map-table").textContent = "";
  if (!d) return;
  const way = [];
  for (let up = d; ; up = D[up.parent]) { way.unshift(up); if (up.i === 0) break; }
  way.forEach((step, i) => {
    const b = make("button", i ? step.name : "/");
    b.type = "button";
    b.onclick = () => go(step.i, true);
    crumbs.append(b, " ");
  });
  crumbs.append(make("span", ` ${size(d.plain)} plain, ${size(d.stored)} stored, ${count(d.n)} files`));
  area(d, 0, 0, map.clientWidth, map.clientHeight, 1);
  const rows = parts(d).slice(0, 100).map((it) => (it.d
    ? [it.d.name, size(it.d.plain), size(it.d.stored), ratio(it.d.plain, it.d.stored), count(it.d.n),
      it.value / d[key]]
    : ["files and small directories", key === "plain" ? size(it.value) : "", key === "stored" ? size(it.value) : "",
      "", "", it.value / d[key]]));
  const columns = [["directory", ""], ["plain", "n"], ["stored", "n"], ["ratio", "n"], ["files", "n"], ["", "b"]];
  table("map-table", columns, rows);
}
// The directories in one, and the rest of it as one part, largest first.
function parts(d) {
  const items = d.below.map((b) => ({ d: b, value: b[key] })).filter((it) => it.value > 0);
  const rest = d[key] - items.reduce((s, it) => s + it.value, 0);
  if (rest > 0) items.push({ d: null, value: rest });
  return items.sort((a, b) => b.value - a.value);
}
// Draws what is in a directory, and in large areas what is in those.
function area(d, x, y, w, h, depth) {
  const map = at("map");
  squarify(parts(d), x, y, w, h, (it, x, y, w, h) => {
    if (w < 2 || h < 2) return;
    const text = it.d ? it.d.name : "files and small directories";
    const e = make(it.d ? "button" : "div", w > 40 && h > 16 ? `${text} ${size(it.value)}` : "", it.d ? "" : "rest");
    e.style.cssText = `left:${x}px;top:${y}px;width:${w}px;height:${h}px`;
    e.title = it.d
      ? `${pathOf(it.d)}: ${size(it.d.plain)} plain, ${size(it.d.stored)} stored, ${count(it.d.n)} files`
      : `${text}: ${size(it.value)}`;
    e.setAttribute("aria-label", e.title);
    if (it.d) {
      e.type = "button";
      e.style.background = `hsl(${(it.d.i * 137) % 360} 45% var(--light))`;
      e.onclick = () => go(it.d.i, true);
    }
    map.append(e);
    if (it.d && depth < 4 && w > 70 && h > 50) area(it.d, x + 3, y + 18, w - 6, h - 21, depth + 1);
  });
}
for (const which of ["stored", "plain"]) {
  at("by-" + which).onclick = () => {
    key = which;
    for (const w of ["stored", "plain"]) at("by-" + w).setAttribute("aria-pressed", String(w === which));
    draw();
  };
}
at("map").addEventListener("keydown", (event) => {
  if (event.key === "Escape" && here !== 0) go(D[here].parent, true);
});
let timer = 0;
window.addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(draw, 100); });
draw();

const steps = [["files as given", files], ["without equal files", I.content_bytes],
  ["without repeated parts, holes and zeroes", I.plain_bytes], ["compressed frames", I.stored_bytes],
  ["image with names, attributes and protection", I.image_bytes]];
table("saved", [["step", ""], ["bytes", "n"], ["of the files", "n"], ["", "b"]],
  steps.map(([name, n]) => [name, size(n), share(n, files), files ? n / files : 0]));
const groups = (title, number) =>
  [[title, ""], [number, "n"], ["plain", "n"], ["stored", "n"], ["ratio", "n"], ["of all stored", "b"]];
table("ways", groups("frames", "number"),
  F.ways.map(([name, n, plain, stored]) => [name, count(n), size(plain), size(stored), ratio(plain, stored),
    I.stored_bytes ? stored / I.stored_bytes : 0]));
at("reads").textContent = `A read of one byte with an empty cache decodes ${size(I.read_bytes_mean)} on average ` +
  `and at most ${size(I.bounds.read_bytes_max)}. The shares are of all plain bytes.`;
table("histogram", [["decodes at most", ""], ["of the bytes", "n"], ["", "b"]],
  F.histogram.map(([step, bytes]) =>
    [size(2 ** step), share(bytes, I.plain_bytes), I.plain_bytes ? bytes / I.plain_bytes : 0]));
table("dearest", [["file", ""], ["a read decodes", "n"], ["size", "n"]],
  F.dearest.map(([p, a, b]) => [p, size(a), size(b)]));
for (const [id, title] of [["categories", "category"], ["codecs", "codec and filter"]]) {
  const sorted = [...I[id]].sort((a, b) => b.stored_bytes - a.stored_bytes);
  table(id, groups(title, "frames"), sorted.map((g) => [g.name, count(g.frames), size(g.plain_bytes),
    size(g.stored_bytes), ratio(g.plain_bytes, g.stored_bytes),
    I.stored_bytes ? g.stored_bytes / I.stored_bytes : 0]));
}
table("largest", [["file", ""], ["size", "n"], ["stored", "n"]], F.largest.map(([p, a, b]) => [p, size(a), size(b)]));
table("duplicated", [["one of the files", ""], ["copies", "n"], ["not stored", "n"]],
  F.duplicated.map(([p, saved, n]) => [p, count(n), size(saved)]));
const most = Math.max(1, ...I.snapshots.map((s) => s.file_bytes));
table("snapshots", [["snapshot", ""], ["entries", "n"], ["files", "n"], ["", "b"]],
  I.snapshots.map((s, i) => [`#${i} ${s.name}`, count(s.entries), size(s.file_bytes), s.file_bytes / most]));
table("protection", [["", "k"], ["", ""]], [
  ["identity", I.identity || "none (format before 0.2)"],
  ["parity", I.parity ? `${size(I.parity.stored_bytes)}, repairs any burst of ${size(I.parity.burst_bytes)}`
    : "none: damage is found, and cannot be repaired"],
  ["signatures", I.signers.length ? I.signers.join(", ") + " (not verified)" : "none"]]);
at("made").textContent = `Made by shale ${F.tool} report.`;
