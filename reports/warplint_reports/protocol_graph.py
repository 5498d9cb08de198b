"""The graph of roles and barriers: a role arrives at a barrier, a barrier is waited at by a role.

`graph` gives it as a networkx graph; `render` writes it for Graphviz or Mermaid. Blocked waits are drawn in red.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from warplint.tables import Handoff, Protocol
from warplint_reports.protocol_words import lines, words
from warplint_reports.report import visible

if TYPE_CHECKING:
    import networkx


def graph(protocol: Protocol) -> networkx.MultiDiGraph:
    """Nodes are ("role", name) and ("barrier", name) with `label`; edges have `label`, `lines` and `blocked`.

    An arrival goes from the role to the barrier, a wait from the barrier to the role: data flows along the edges. A
    role that hands storage back to the one it got it from shows as a cycle of the graph, which is no deadlock.
    """
    import networkx

    made = networkx.MultiDiGraph(kernel=protocol.kernel)
    threads = {role.name: role.threads for role in protocol.roles}
    barriers = {row.name: row for row in protocol.handoffs}
    for edge in protocol.edges:
        role, barrier = ("role", edge.role), ("barrier", edge.barrier)
        if role not in made:
            made.add_node(role, label=_lines(edge.role, threads.get(edge.role, "")))
        if barrier not in made:
            made.add_node(barrier, label=_barrier(edge.barrier, barriers.get(edge.barrier)))
        ends = (role, barrier) if edge.kind == "arrives" else (barrier, role)
        made.add_edge(*ends, label=_lines(edge.label, lines(edge.lines)), lines=edge.lines, blocked=edge.blocked)
    return made


def _lines(*texts: str) -> tuple[str, ...]:
    return tuple(text for text in texts if text)


def _barrier(name: str, row: Handoff | None) -> tuple[str, ...]:
    if row is None:
        return (name,)
    carries = f"hands over {', '.join(row.carries)}" if row.carries else ""
    return _lines(f"{name}  {words(row)}".strip(), f"count {row.count}" if row.count else "", carries)


def render(protocols: Iterable[Protocol], form: str) -> str:
    """The graphs of all kernels, `dot` or `mermaid`, ending in a newline."""
    write = _dot if form == "dot" else _mermaid
    return "".join("\n".join(write(one)) + "\n" for one in protocols)


def _escaped(text: str) -> str:
    return visible(text).replace("\\", "\\\\").replace('"', '\\"')


def _dot(one: Protocol) -> Iterator[str]:
    made = graph(one)
    names = {node: f"n{at}" for at, node in enumerate(made.nodes)}
    yield f'digraph "{_escaped(one.kernel)}" {{'
    yield "  rankdir=LR; node [fontname=monospace, fontsize=10]; edge [fontname=monospace, fontsize=9];"
    for node, data in made.nodes(data=True):
        shape = "box, style=rounded" if node[0] == "role" else "ellipse"
        label = "\\n".join(_escaped(text) for text in data["label"])
        yield f'  {names[node]} [shape={shape}, label="{label}"];'
    for start, end, data in made.edges(data=True):
        label = "\\n".join(_escaped(text) for text in data["label"])
        red = ", color=red, fontcolor=red, penwidth=2" if data["blocked"] else ""
        dashed = ", style=dashed" if start[0] == "barrier" else ""
        yield f'  {names[start]} -> {names[end]} [label="{label}"{dashed}{red}];'
    yield "}"


def _html(text: str) -> str:
    out = visible(text).replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
    return out.replace("|", "#124;").replace("`", "#96;").replace("\\", "#92;")


def _mermaid(one: Protocol) -> Iterator[str]:
    made = graph(one)
    names = {node: f"n{at}" for at, node in enumerate(made.nodes)}
    yield "flowchart LR"
    yield f"  %% {visible(one.kernel)}"
    for node, data in made.nodes(data=True):
        label = "<br/>".join(_html(text) for text in data["label"])
        yield f'  {names[node]}["{label}"]' if node[0] == "role" else f'  {names[node]}(["{label}"])'
    for number, (start, end, data) in enumerate(made.edges(data=True)):
        label = "<br/>".join(_html(text) for text in data["label"])
        arrow = "-.->" if start[0] == "barrier" else "-->"
        yield f'  {names[start]} {arrow}|"{label}"| {names[end]}'
        if data["blocked"]:
            yield f"  linkStyle {number} stroke:red,stroke-width:2px"


__all__ = ["graph", "render"]
