"""What a rule of another package may build on: these names stay, modules with an underscore may change any day.

A rule makes one `Reporter` and yields what it returns; `who`, `threads`, `warps` and `under` say thread sets and guard
chains as our own rules do; `spelled` names an operation as the source spells it. See docs/WRITING_RULES.md.
"""

from warplint_rules._say import Reporter, guard_places, location, reached, spelled, threads, under, warps, who

__all__ = ["Reporter", "guard_places", "location", "reached", "spelled", "threads", "under", "warps", "who"]
