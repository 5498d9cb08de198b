"""The role-guard tree as plain data for reports: every branch with the exact set of threads in it.

Generated kernels nest deeply and unroll widely; the tree is cut at fixed bounds, and says where.
"""

from __future__ import annotations

from warplint.finding import TreeNode, TreeOp
from warplint.place import shorten
from warplint.source import SourceFile
from warplint.threads.bits import reach_text
from warplint.threads.facts import Event, Reach, RoleNode, Roles

MAX_DEPTH = 64
MAX_ITEMS = 5_000


def build(roles: Roles, source: SourceFile) -> TreeNode:
    """The tree of one kernel. Branches without operations are left out; one operation repeated by an unrolled loop at
    one place with the same threads is shown once, with the number of repetitions.
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
        mods = ", ".join(
            f"{key} {value}" for key, value in sorted(event.op.mods.items()) if value not in (False, "", None)
        )
        if times > 1:
            mods = f"{mods}; {times} times" if mods else f"{times} times"
        return TreeOp(event.name, event.op.spelling, source.line_of(event.op.span.start), say(event.reach), mods)

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
