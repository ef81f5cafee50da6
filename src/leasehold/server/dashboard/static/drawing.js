// Pictures of the wait-for graph, laid out by the server, and of a refused cycle as a ring.

import { cut, svg } from "./dom.js";

const HEAD = 7;

function arrow(x1, y1, x2, y2, kind, bend = 0) {
  const middle = (x1 + x2) / 2;
  const path = bend ? `M${x1},${y1} Q${bend.x},${bend.y} ${x2},${y2}` : `M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}`;
  const from = bend ? bend : { x: middle, y: y2 };
  const angle = Math.atan2(y2 - from.y, x2 - from.x);
  const corner = (turn) => `${x2 - HEAD * Math.cos(angle + turn)},${y2 - HEAD * Math.sin(angle + turn)}`;
  return svg("g", { class: `join ${kind}` }, svg("path", { d: path }), svg("polygon", { points: `${x2},${y2} ${corner(0.45)} ${corner(-0.45)}` }));
}

function node(kind, label, x, y, width, height) {
  return svg("g", { class: `node ${kind}`, transform: `translate(${x},${y})` },
    svg("title", {}, label),
    svg("rect", { width, height, rx: kind === "agent" ? height / 2 : 6 }),
    svg("text", { x: width / 2, y: height / 2, "dominant-baseline": "central", "text-anchor": "middle" }, cut(label, Math.floor(width / 8.2))));
}

export function drawGraph(drawing) {
  const { node_width: width, node_height: height } = drawing;
  const places = new Map(drawing.nodes.map((each) => [each.id, each]));
  const picture = svg("svg", { class: "graph", viewBox: `0 0 ${drawing.width} ${drawing.height}`, width: drawing.width, height: drawing.height, role: "img",
    "aria-label": `Wait-for graph: ${drawing.nodes.length} nodes, ${drawing.joins.length} lines. The table has the same content.` });
  for (const join of drawing.joins) {
    const a = places.get(join.begin), b = places.get(join.end), ahead = b.x > a.x;
    picture.append(arrow(a.x + (ahead ? width : 0), a.y + height / 2, b.x + (ahead ? 0 : width), b.y + height / 2, join.kind));
  }
  for (const each of drawing.nodes) picture.append(node(each.kind, each.label, each.x, each.y, width, height));
  return picture;
}

export function drawCycle(cycle) {
  const count = cycle.length, width = 150, height = 36;
  const radius = Math.max(84, (count * 62) / Math.PI), rx = radius + 60;
  const w = rx * 2 + width + 20, h = radius * 2 + height + 20;
  const at = (place) => {
    const angle = (place / count) * 2 * Math.PI - Math.PI / 2;
    return { x: w / 2 + rx * Math.cos(angle), y: h / 2 + radius * Math.sin(angle) };
  };
  const picture = svg("svg", { class: "graph cycle", viewBox: `0 0 ${w} ${h}`, width: w, height: h, role: "img", "aria-label": `Cycle: ${[...cycle, cycle[0]].join(", then ")}` });
  for (let place = 0; place < count; place++) {
    const a = at(place), b = at((place + 1) % count), half = at(place + 0.5);
    const begin = edge(a, half, width, height), end = edge(b, half, width, height);
    picture.append(arrow(begin.x, begin.y, end.x, end.y, "closed", half));
  }
  cycle.forEach((label, place) => picture.append(node(place % 2 ? "resource" : "agent", label, at(place).x - width / 2, at(place).y - height / 2, width, height)));
  return picture;
}

// Where a line from the middle of a node towards a point leaves its box.
function edge(from, to, width, height) {
  const dx = to.x - from.x, dy = to.y - from.y;
  const scale = Math.min(width / 2 / Math.max(Math.abs(dx), 0.01), height / 2 / Math.max(Math.abs(dy), 0.01), 1);
  return { x: from.x + dx * scale, y: from.y + dy * scale };
}
