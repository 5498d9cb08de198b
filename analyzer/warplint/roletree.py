"""The role-guard tree as plain data for reports: every branch with the exact set of threads in it.

Generated kernels nest deeply and unroll widely; the tree is cut at fixed bounds, and says where.
"""

from __future__ import annotations

from warplint.finding import TreeNode, TreeOp
from warplint.place import shorten
from warplint.source import SourceFile
from warplint.threads.bits import reach_text
from warplint.threads.facts import Event, Known, Pointer, Reach, RoleNode, Roles, Value

MAX_DEPTH = 64
MAX_ITEMS = 5_000


def build(roles: Roles, source: SourceFile) -> TreeNode:
    """The tree of one kernel. Branches without operations are left out; an operation that an unrolled loop repeats
    with the same threads and operands is shown once, with the number of repetitions.
    """
    total, warp = roles.threads, roles.launch.warp_size
    words: dict[Reach, str] = {}
    left = MAX_ITEMS

    def say(reach: Reach) -> str:
        text = words.get(reach)
        if text is None:
            text = words[reach] = reach_text(reach, total, warp)
        return text

    def leaf(event: Event, times: int) -> TreeOp:
        detail = operands(event) + (f"; {times} times" if times > 1 else "")
        line = source.line_of(event.op.span.start)
        return TreeOp(event.name, event.op.spelling, line, say(event.reach), detail.lstrip("; "))

    def node(of: RoleNode, items: tuple[TreeNode | TreeOp, ...]) -> TreeNode:
        return TreeNode(
            of.kind,
            shorten(of.label),
            source.line_of(of.span.start),
            say(of.reach),
            format(of.reach.threads, "x"),
            of.reach.count(warp),
            of.reach.exact,
            items,
        )

    # post-order with an explicit stack: (node, position in its items, what is built so far)
    stack: list[tuple[RoleNode, int, list[TreeNode | TreeOp]]] = [(roles.tree, 0, [])]
    while True:
        current, position, built = stack.pop()
        while position < len(current.items):
            item = current.items[position]
            position += 1
            if isinstance(item, RoleNode):
                if not item.items:
                    continue
                if len(stack) >= MAX_DEPTH or left <= 0:
                    built.append(
                        TreeOp("...", "deeper levels are not shown", source.line_of(item.span.start), say(item.reach))
                    )
                    continue
                stack.append((current, position, built))
                current, position, built = item, 0, []
                continue
            times = 1
            while position < len(current.items):
                following = current.items[position]
                if not isinstance(following, Event) or following.op is not item.op or following.reach != item.reach:
                    break
                if operands(following) != operands(item):
                    break
                times += 1
                position += 1
            left -= 1
            if left > 0:
                built.append(leaf(item, times))
            elif left == 0:
                built.append(TreeOp("...", "more operations are not shown", source.line_of(item.op.span.start), ""))
        if not stack:
            return node(current, tuple(built))
        if built:
            stack[-1][2].append(node(current, tuple(built)))


OPERANDS = ("barrier", "count", "parity", "bytes", "id", "threads", "columns", "group", "registers", "mask", "cta")
"""Operand roles that a person looks for in a protocol, in the order in which they are printed."""
MODIFIERS = ("cta_group", "multicast", "direction", "noinc", "read", "sem")
MAX_VALUES = 4
FULL_MASKS = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, -1)
"""Member masks that name every lane go without saying."""


def operands(event: Event) -> str:
    """The operands of an event that matter to the protocol, where they are known: "barrier full[2], parity 1".

    An operand that differs between the threads lists its values; one that is not known is left out.
    """
    parts = []
    for role in OPERANDS:
        value = event.values.get(role)
        if role == "mask":
            if isinstance(value, Known) and isinstance(value.each, int) and value.each not in FULL_MASKS:
                parts.append(f"mask {value.each:#x}")
        elif text := _value(value, event.reach.threads):
            parts.append(f"{role} {text}")
    for name in MODIFIERS:
        value = event.op.mods.get(name)
        if value is True:
            parts.append(name)
        elif value not in (None, False, "", 1):
            parts.append(f"{name} {value}" if name == "cta_group" else str(value))
    return ", ".join(parts)


def _value(value: Value | None, threads: int) -> str:
    if isinstance(value, Known):
        return _numbers(value, threads, 1)
    if isinstance(value, Pointer):
        size = value.symbol.element_bytes or 1
        where = _numbers(value.offset, threads, size) if isinstance(value.offset, Known) else "?"
        text = value.symbol.name
        if size == 1:  # a pool of bytes
            text += f" + {where}" if where != "0" else ""
        elif where != "0" or value.symbol.dims:
            text += f"[{where}]"
        return text + (" of another CTA" if value.cta is not None else "")
    return ""


def _numbers(value: Known, threads: int, size: int) -> str:
    """The values of the threads in a set, in units of `size` where that divides them."""
    if isinstance(value.each, int):
        each = [value.each]
    else:
        each = sorted({number for thread, number in enumerate(value.each) if threads >> thread & 1})
    if size > 1 and all(number % size == 0 for number in each):
        each = [number // size for number in each]
    return "|".join(map(str, each[:MAX_VALUES])) + ("|..." if len(each) > MAX_VALUES else "")
