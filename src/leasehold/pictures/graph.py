"""The wait-for graph as text, Mermaid, DOT and a picture. Names and holders are printed inert."""

from __future__ import annotations

from leasehold.domain import durations
from leasehold.domain.names import shown
from leasehold.pictures.layout import HEIGHT, MARGIN, WIDTH, placed
from leasehold.pictures.shapes import (
    AMBER,
    BLUE,
    FAINT,
    INK,
    PALE_AMBER,
    PALE_BLUE,
    RED,
    Box,
    Picture,
    Polyline,
    Words,
    cut,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leasehold.domain.events import Event
    from leasehold.domain.graph import Graph
    from leasehold.pictures.layout import GraphNode, Join
    from leasehold.pictures.shapes import Shape

HEAD = 44.0
LINE = 22.0
CYCLES_MOST = 5
_LETTERS = 24


def cycle_of(event: Event) -> tuple[str, ...]:
    """Return agent, resource, agent, resource, … of a refused request; the cycle closes at the first agent."""
    told = event.detail.get("cycle")
    return tuple(map(str, told)) if isinstance(told, list | tuple) else ()


def as_text(graph: Graph) -> str:
    """Return a line for each wait, and the refused cycles."""
    names = {agent.id: shown(agent.holder) for agent in graph.agents}
    lines: list[str] = []
    for edge in graph.edges:
        how = "held by" if edge.state == "held" else "behind"
        verb = "waits for" if edge.place is not None else "polls for"
        lines.append(
            f"{names[edge.waiter]} {verb} {shown(edge.resource)}, {how} {names[edge.blocker]}"
            f" (since {durations.in_seconds(graph.now_us - edge.since_us)})"
        )
    if not graph.complete:
        lines.append("… and more: only the longest waits are shown")
    if not lines:
        lines.append("Nobody waits.")
    for event in graph.deadlocks[:CYCLES_MOST]:
        cycle = cycle_of(event)
        told = " → ".join(shown(each) for each in (*cycle, *cycle[:1]))
        ago = durations.in_seconds(graph.now_us - event.at_us)
        lines.append(f"refused {ago} ago, as it would have closed a cycle: {told}")
    return "\n".join(lines)


# -------------------------------------------------------------------------------------------- Mermaid, DOT


def as_mermaid(graph: Graph) -> str:
    """Return the graph for Markdown that draws Mermaid, as GitHub's does."""
    drawing = placed(graph)
    ids = {node.id: f"n{number}" for number, node in enumerate(drawing.nodes)}
    lines = ["flowchart LR"]
    for node in drawing.nodes:
        label = _mermaid(node.label)
        lines.append(f'  {ids[node.id]}(["{label}"])' if node.kind == "agent" else f'  {ids[node.id]}["{label}"]')
    for join in drawing.joins:
        arrow = {"waits": "-->|waits for|", "polls": "-.->|polls for|", "held": "-->|held by|"}[join.kind]
        lines.append(f"  {ids[join.begin]} {arrow} {ids[join.end]}")
    for number, event in enumerate(graph.deadlocks[:CYCLES_MOST]):
        lines += _mermaid_cycle(number, cycle_of(event))
    return "\n".join(lines)


def _mermaid_cycle(number: int, cycle: tuple[str, ...]) -> list[str]:
    names = [f"d{number}_{place}" for place in range(len(cycle))]
    lines = [f'  subgraph deadlock{number}["refused: it would have closed this cycle"]']
    for place, (name, label) in enumerate(zip(names, cycle, strict=True)):
        lines.append(f'    {name}(["{_mermaid(label)}"])' if place % 2 == 0 else f'    {name}["{_mermaid(label)}"]')
    lines += [f"    {name} ==> {names[(place + 1) % len(names)]}" for place, name in enumerate(names)]
    return [*lines, "  end"]


def _mermaid(text: str) -> str:
    """Escape every character that Mermaid or HTML could interpret."""
    return "".join(one if one.isalnum() or one in " -_./:@,=+~" else f"#{ord(one)};" for one in shown(text))


def as_dot(graph: Graph) -> str:
    """Return the graph for Graphviz: `leasehold graph --format dot | dot -Tpng`."""
    drawing = placed(graph)
    lines = ["digraph waits {", "  rankdir=LR;", '  node [fontname="sans-serif", style=filled, fillcolor="#ffffff"];']
    ids = {node.id: f"n{number}" for number, node in enumerate(drawing.nodes)}
    for node in drawing.nodes:
        shape, fill = ("ellipse", PALE_BLUE) if node.kind == "agent" else ("box", PALE_AMBER)
        lines.append(f'  {ids[node.id]} [label={_quoted(node.label)}, shape={shape}, fillcolor="{fill}"];')
    for join in drawing.joins:
        says = {"waits": "waits for", "polls": "polls for", "held": "held by"}[join.kind]
        style = ', style="dashed"' if join.kind == "polls" else ""
        lines.append(f'  {ids[join.begin]} -> {ids[join.end]} [label="{says}"{style}];')
    for number, event in enumerate(graph.deadlocks[:CYCLES_MOST]):
        lines += _dot_cycle(number, cycle_of(event))
    return "\n".join([*lines, "}"])


def _dot_cycle(number: int, cycle: tuple[str, ...]) -> list[str]:
    names = [f"d{number}_{place}" for place in range(len(cycle))]
    lines = [f"  subgraph cluster_{number} {{", '    label="refused: it would have closed this cycle";']
    for place, (name, label) in enumerate(zip(names, cycle, strict=True)):
        shape = "ellipse" if place % 2 == 0 else "box"
        lines.append(f"    {name} [label={_quoted(label)}, shape={shape}];")
    lines += [f'    {name} -> {names[(place + 1) % len(names)]} [color="{RED}"];' for place, name in enumerate(names)]
    return [*lines, "  }"]


def _quoted(text: str) -> str:
    return '"' + shown(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


# ---------------------------------------------------------------------------------------------- a picture


def as_picture(graph: Graph) -> Picture:
    """Draw the graph, and below it the refused cycles."""
    drawing = placed(graph)
    waiting = len({edge.waiter for edge in graph.edges})
    title = f"Wait-for graph: {waiting} waiting, {len(graph.deadlocks)} refused lately"
    shapes: list[Shape] = [Words(MARGIN, 28, title, INK, 16, bold=True)]
    nodes = {node.id: node for node in drawing.nodes}
    drawn: list[Shape] = [_join(join, nodes) for join in drawing.joins]
    drawn += [shape for node in drawing.nodes for shape in _node(node.kind, node.label, node.x, node.y)]
    shapes += [_moved(shape, HEAD) for shape in drawn or [Words(MARGIN, MARGIN + 20, "Nobody waits.", FAINT, 13)]]
    bottom = HEAD + drawing.height + 12
    width = max(drawing.width, 520.0)
    for event in graph.deadlocks[:CYCLES_MOST]:
        row, reached, extent = _cycle(cycle_of(event), bottom, graph.now_us - event.at_us)
        shapes += row
        bottom, width = reached, max(width, extent)
    return Picture(title, width, bottom + 8, tuple(shapes))


def _moved(shape: Shape, by: float) -> Shape:
    if isinstance(shape, Polyline):
        return shape._replace(points=tuple((x, y + by) for x, y in shape.points))
    return shape._replace(y=shape.y + by)


def _join(join: Join, nodes: dict[str, GraphNode]) -> Polyline:
    begin, end = nodes[join.begin], nodes[join.end]
    forward = end.x > begin.x
    start = (begin.x + WIDTH if forward else begin.x, begin.y + HEIGHT / 2)
    stop = (end.x if forward else end.x + WIDTH, end.y + HEIGHT / 2)
    colour = BLUE if join.kind == "held" else AMBER
    return Polyline((start, stop), colour, dashed=join.kind == "polls", arrow=True)


def _node(kind: str, label: str, x: float, y: float) -> list[Shape]:
    agent = kind == "agent"
    box = Box(
        x, y, WIDTH, HEIGHT, PALE_BLUE if agent else PALE_AMBER, BLUE if agent else AMBER, 22 if agent else 5, label
    )
    return [box, Words(x + WIDTH / 2, y + HEIGHT / 2 + 5, cut(label, _LETTERS), INK, 13, "middle")]


def _cycle(cycle: tuple[str, ...], top: float, ago: int) -> tuple[list[Shape], float, float]:
    """Draw one refused cycle: its nodes side by side, and a line back from the last to the first."""
    says = f"Refused {durations.in_seconds(ago)} ago: it would have closed this cycle"
    shapes: list[Shape] = [Words(MARGIN, top + 14, says, RED, 13, bold=True)]
    y, step = top + 26, WIDTH + 36
    for place, label in enumerate(cycle):
        x = MARGIN + place * step
        shapes += _node("agent" if place % 2 == 0 else "resource", label, x, y)
        if place + 1 < len(cycle):
            line = ((x + WIDTH, y + HEIGHT / 2), (x + step, y + HEIGHT / 2))
            shapes.append(Polyline(line, RED, arrow=True, width=2))
    below, end, mid = y + HEIGHT + LINE, MARGIN + (len(cycle) - 1) * step + WIDTH / 2, MARGIN + WIDTH / 2
    back = ((end, y + HEIGHT), (end, below), (mid, below), (mid, y + HEIGHT))
    shapes.append(Polyline(back, RED, arrow=True, width=2))
    return shapes, below + 20, MARGIN * 2 + len(cycle) * step - 36
