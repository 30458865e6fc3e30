"""The look of a report: the palette of the server's own page, set like a paper; light, dark, printed."""

from __future__ import annotations

__all__ = ["SCRIPT", "STYLE"]

STYLE = """
:root {
  color-scheme: light dark;
  --ground: #f4f6f4; --surface: #ffffff; --raised: #eef2ef; --line: #dbe2dd; --edge: #86938b;
  --text: #18201b; --quiet: #56625a; --good: #1b6e45; --turn: #1a5bb5; --dirty: #855200;
  --leaving: #6a45a8; --wrong: #b3241c; --good-ground: #eef7f1; --wrong-ground: #fdf0ee;
  --body: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif;
  --mono: ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --ground: #0f1412; --surface: #171d1a; --raised: #202824; --line: #2a342f; --edge: #6d7a72;
    --text: #e4ebe6; --quiet: #9daba2; --good: #63c795; --turn: #86b7ff; --dirty: #e3b457;
    --leaving: #c3acf5; --wrong: #ff968b; --good-ground: #15241c; --wrong-ground: #2b1917;
  }
}
*, *::before, *::after { box-sizing: border-box; }
html {
  background: var(--ground); color: var(--text); font: 15px/1.5 var(--body);
  -webkit-text-size-adjust: 100%; text-size-adjust: 100%;
}
body { margin: 0; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
h1, h2, h3, p, ul, dl, dd, figure { margin: 0; padding: 0; }
ul { list-style: none; }
code { font: 0.86em/1.45 var(--mono); unicode-bidi: isolate; }
.quiet { color: var(--quiet); }
main, header, footer { max-width: 62rem; margin: 0 auto; padding: 0 clamp(1rem, 4vw, 2.5rem); }
header { padding-top: 2rem; }
.brand { display: flex; align-items: center; gap: 0.55rem; color: var(--quiet); font-size: 0.9rem; }
.brand svg { width: 1.5rem; height: 1.5rem; flex: none; }
.mark { fill: #1f7a4d; } .mark-line { fill: none; stroke: #ffffff; stroke-width: 2.5; }
.mark-dot { fill: #ffffff; }
h1 {
  margin: 0.7rem 0 0.2rem; font-size: 1.75rem; line-height: 1.2; letter-spacing: -0.015em;
  font-weight: 680;
}
header p { color: var(--quiet); }
section { margin-top: 2.6rem; }
h2 {
  padding-bottom: 0.35rem; margin-bottom: 0.9rem; border-bottom: 1px solid var(--line);
  font-size: 1.2rem; font-weight: 660; letter-spacing: -0.01em;
}
h3 { font-size: 1rem; font-weight: 640; }
section > p:not(.unknown) { max-width: 44rem; margin-bottom: 0.9rem; }

.verdict {
  margin-top: 1.4rem; padding: 1.1rem 1.3rem; background: var(--surface);
  border: 1px solid var(--line); border-left: 6px solid var(--edge); border-radius: 8px;
}
.verdict.good { background: var(--good-ground); border-color: var(--good); }
.verdict.wrong { background: var(--wrong-ground); border-color: var(--wrong); }
.verdict .word { font-size: 1.5rem; line-height: 1.25; font-weight: 700; letter-spacing: -0.015em; }
.verdict.good .word { color: var(--good); }
.verdict.wrong .word { color: var(--wrong); }
.verdict .headline { font-size: 1.05rem; }
.verdict ul { margin-top: 0.5rem; display: grid; gap: 0.15rem; }
.verdict li { padding-left: 1.1rem; text-indent: -1.1rem; }
.verdict li::before {
  content: "–"; display: inline-block; width: 1.1rem; text-indent: 0; color: var(--quiet);
}

.key {
  display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); margin-top: 1.4rem; gap: 0.8rem;
}
.key > div {
  padding: 0.75rem 0.95rem;
  background: var(--surface); border: 1px solid var(--line); border-radius: 8px;
}
.key dt { color: var(--quiet); font-size: 0.85rem; }
.key dd.figure { font-size: 1.5rem; line-height: 1.3; font-weight: 650; letter-spacing: -0.02em; }
.key dd.figure.words { font-size: 1.1rem; line-height: 1.77; font-weight: 600; letter-spacing: 0; }
.key dd.figure .unit { font-size: 0.95rem; font-weight: 500; letter-spacing: 0; color: var(--quiet); }
.key dd.note { color: var(--quiet); font-size: 0.85rem; line-height: 1.35; }
.key .wrong dd.figure { color: var(--wrong); }

.scroll { overflow-x: auto; overflow-wrap: normal; }
table { width: 100%; border-collapse: collapse; font-size: 0.92rem; }
caption { text-align: left; color: var(--quiet); font-size: 0.85rem; padding-bottom: 0.3rem; }
th, td {
  padding: 0.42rem 0.7rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: baseline;
}
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
thead th {
  color: var(--quiet); font-size: 0.82rem; font-weight: 550; white-space: nowrap;
  vertical-align: bottom;
}
tbody th { font-weight: 550; }
tbody tr:last-child > * { border-bottom-color: transparent; }
th.number, td.number { text-align: right; white-space: nowrap; }
td .sub, th .sub { display: block; color: var(--quiet); font-weight: 400; font-size: 0.92em; }
.state { white-space: nowrap; font-weight: 640; width: 6.5rem; }
.state.held { color: var(--good); } .state.broken { color: var(--wrong); }
.state.unseen, .state.untried { color: var(--quiet); font-weight: 550; }
.violations {
  margin-top: 0.35rem; padding-left: 0.7rem; border-left: 2px solid var(--wrong); font-size: 0.93em;
}
.violations li { padding: 0.1rem 0; }
td.bar { width: 42%; padding-right: 0; vertical-align: middle; }
td.bar svg { display: block; width: 100%; height: 0.6rem; }
td.bar rect { fill: var(--leaving); }
.plain th { width: 45%; font-weight: 500; }
.after { margin-top: 1.4rem; }
.uneven { grid-template-columns: minmax(0, 6fr) minmax(0, 5fr); }
.plain code { white-space: pre-wrap; }
.two { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 0 2.5rem; }

figure { margin-top: 1.4rem; }
figcaption { margin-bottom: 0.8rem; max-width: 54rem; }
figcaption p, .after > p { color: var(--quiet); font-size: 0.9rem; line-height: 1.4; }
.unknown {
  padding: 0.8rem 1rem; border: 1px dashed var(--edge); border-radius: 8px; color: var(--quiet);
}
.plot { position: relative; padding: 0.4rem 5.6rem 1.8rem 4.2rem; }
.plot > svg { display: block; width: 100%; height: 190px; overflow: visible; }
.plot text {
  fill: currentcolor; color: var(--quiet); font: 12px/1 var(--body);
  font-variant-numeric: tabular-nums;
}
.plot .grid line { stroke: var(--line); stroke-width: 1; shape-rendering: crispedges; }
.plot .grid .base, .plot .grid .tick { stroke: var(--edge); }
.plot .line {
  fill: none; stroke: currentcolor; stroke-width: 1.75; stroke-linejoin: round; stroke-linecap: round;
}
.plot .lines path { vector-effect: non-scaling-stroke; }
.plot .dashed { stroke-dasharray: 5 4; stroke-linecap: butt; }
.plot .area { fill: currentcolor; opacity: 0.12; stroke: none; }
.plot .dot { fill: currentcolor; }
.plot .name { font-weight: 600; }
.plot .good {
  color: var(--good); } .plot .turn { color: var(--turn); } .plot .dirty { color: var(--dirty);
}
.plot .leaving {
  color: var(--leaving); } .plot .wrong { color: var(--wrong); } .plot .quiet { color: var(--quiet);
}
.two .plot { padding-right: 4.6rem; }
.cursor { stroke: var(--edge); stroke-width: 1; }
.readout {
  position: absolute; top: 0; z-index: 1; padding: 0.3rem 0.6rem; pointer-events: none;
  white-space: nowrap; background: var(--surface); border: 1px solid var(--edge); border-radius: 6px;
  font-size: 0.8rem; line-height: 1.4;
}
.readout b { display: block; font-weight: 600; }
details { margin-top: 1.2rem; }
summary { cursor: pointer; color: var(--quiet); }
:focus-visible { outline: 2px solid var(--turn); outline-offset: 2px; border-radius: 3px; }
footer { margin-top: 3rem; padding-bottom: 3rem; }
footer p {
  padding-top: 0.9rem; border-top: 1px solid var(--line); color: var(--quiet); font-size: 0.85rem;
}

@media (max-width: 52rem) { .key { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
@media screen and (max-width: 42rem) {
  .two { grid-template-columns: minmax(0, 1fr); gap: 1.4rem; }
  .plot, .two .plot { padding-left: 3.6rem; padding-right: 4.9rem; }
  .plot .spare { display: none; }
  .key > div { padding: 0.6rem 0.7rem; }
  .key dd.figure { font-size: 1.25rem; }
  .key dd.figure.words { font-size: 1rem; line-height: 1.6; }
  .key dd.figure .unit { font-size: 0.85rem; }
  .verdict { padding: 0.9rem 1rem; }
  th, td { padding: 0.4rem 0.45rem; }
  td.bar { width: 30%; }
  .state { width: auto; }
  .stack thead { display: none; }
  .stack tr { display: grid; grid-template-columns: minmax(0, 1fr) auto auto; gap: 0 0.8rem; }
  .stack td, .stack th { border-bottom: 0; padding: 0.35rem 0 0.15rem; }
  .stack .whole {
    grid-column: 1 / -1; grid-row: 2; padding: 0 0 0.6rem; border-bottom: 1px solid var(--line);
  }
  .stack td[data-head] { color: var(--quiet); font-size: 0.85rem; }
  .stack td.number:not([data-head]) { display: none; }
  .stack td[data-head]::after { content: " " attr(data-head); }
  .tall thead { display: none; }
  .tall tr {
    display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 0.3rem 0.6rem;
    padding: 0.6rem 0; border-bottom: 1px solid var(--line);
  }
  .tall th { grid-column: 1 / -1; }
  .tall th, .tall td, .tall td.number { padding: 0; border: 0; text-align: left; white-space: normal; }
  .tall td[data-head]::before {
    content: attr(data-head); display: block; color: var(--quiet); font-size: 0.8rem;
  }
  .tall td:not([data-head]) { grid-column: 1 / -1; }
}

@page {
  size: A4; margin: 16mm 15mm 18mm;
  @bottom-left { content: "greenroom stress"; font: 8pt sans-serif; color: #56625a; }
  @bottom-right { content: counter(page) " of " counter(pages); font: 8pt sans-serif; color: #56625a; }
}
@media print {
  :root { color-scheme: light; --ground: #ffffff; --surface: #ffffff; }
  html {
    font-size: 10pt; line-height: 1.4; print-color-adjust: exact;
    -webkit-print-color-adjust: exact;
  }
  main, header, footer { max-width: none; padding: 0; }
  header { padding-top: 0; }
  h1 { font-size: 1.5rem; margin-top: 0.4rem; }
  .verdict { margin-top: 0.9rem; padding: 0.7rem 1rem; }
  .key { margin-top: 0.9rem; }
  section { margin-top: 1.3rem; }
  h2 { margin-bottom: 0.5rem; }
  section.sheet { break-before: page; margin-top: 0; }
  h2, h3, figcaption, caption, thead { break-after: avoid; }
  figure, tr, .verdict, .key > div, .unknown, .violations li { break-inside: avoid; }
  .key { grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 0.5rem; }
  .key dd.figure { font-size: 1.3rem; }
  .key > div { padding: 0.5rem 0.7rem; }
  th, td { padding-top: 0.3rem; padding-bottom: 0.3rem; }
  .plot > svg { height: 150px; }
  .plot text { font-size: 8.5pt; }
  figure, .after { margin-top: 1.1rem; }
  figcaption { margin-bottom: 0.5rem; }
  details:not([open]), .readout, .cursor { display: none; }
  footer { margin-top: 1.6rem; padding-bottom: 0; }
}
""".strip()

SCRIPT = """
for (const plot of document.querySelectorAll(".plot[data-points]")) {
  const points = JSON.parse(plot.dataset.points), svg = plot.querySelector("svg");
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
  const readout = document.createElement("div");
  cursor.setAttribute("class", "cursor");
  readout.className = "readout";
  readout.setAttribute("aria-hidden", "true");
  const hide = () => { cursor.remove(); readout.remove(); };
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * 1000;
    if (!points.x.length || x < -20 || x > 1020) return hide();
    let best = 0;
    points.x.forEach((at, i) => { if (Math.abs(at - x) < Math.abs(points.x[best] - x)) best = i; });
    const share = points.x[best] / 1000, right = share > 0.5;
    for (const [name, value] of Object.entries({ x1: share, x2: share, y1: 0, y2: 1 }))
      cursor.setAttribute(name, `${value * 100}%`);
    const head = document.createElement("b");
    head.textContent = points.at[best];
    const rows = points.lines.map(([name, values]) => {
      const row = document.createElement("div");
      row.textContent = `${name} ${values[best] ?? "not known"}`;
      return row;
    });
    readout.replaceChildren(head, ...rows);
    readout.style.left = `${box.left - plot.getBoundingClientRect().left + share * box.width}px`;
    readout.style.transform = right ? "translateX(calc(-100% - 10px))" : "translateX(10px)";
    svg.append(cursor);
    plot.append(readout);
  });
}
""".strip()
