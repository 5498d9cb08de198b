"""What code scanning takes at most: an upload beyond its limits is rejected as a whole.

The worst results are kept, in their order, and a notification says how many others there are.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

MAX_RESULTS = 25_000
"""Results of a run; above, the upload is rejected (and of those in it, GitHub shows the worst 5,000)."""
MAX_BYTES = 10_000_000
"""Size of the log, compressed by gzip."""
MAX_RELATED = 100
"""Related locations of a result; GitHub keeps no more."""
MAX_STEPS = 1_000
"""Locations of a code flow; GitHub keeps no more."""
NOTIFICATION = ("report-truncated", "Results were left out to stay within the limits of code scanning", "warning")
_RANK = {"error": 0, "warning": 1, "note": 2}


def middle_out(items: tuple, limit: int) -> tuple:
    """At most `limit` items: the first and the last ones, for a schedule's beginning and its end matter."""
    if len(items) <= limit:
        return items
    head = limit // 2
    return (*items[:head], *items[len(items) - (limit - head) :])


def fitted(log: dict[str, Any], notice: dict[str, Any]) -> str:
    """The log as text within the limits. `notice` is the notification to add when something is left out; its message
    is filled in here. The log is changed.
    """
    (run,) = log["runs"]
    everything: list[dict[str, Any]] = run["results"]
    notices: list[dict[str, Any]] = run["invocations"][0]["toolExecutionNotifications"]
    kept = min(len(everything), MAX_RESULTS)
    written = len(notices)
    # Each round leaves out a good part of what is left, so that a few suffice.
    for _ in range(40):
        run["results"] = _worst(everything, kept)
        left_out = len(everything) - len(run["results"])
        if left_out or written < len(notices):
            run["properties"].get("shard", {}).pop("files", None)  # they no longer say what belongs to which file
            _say(run, notice, left_out, len(notices) - written, notices[:written])
        text = json.dumps(log, indent=2) + "\n"
        size = _compressed(text)
        if size <= MAX_BYTES or not (kept or written):
            break
        share = MAX_BYTES / size * 0.9
        kept, written = int(kept * share), int(written * share)
        if size > 2 * MAX_BYTES or kept < MAX_RESULTS // 10:
            run["properties"].pop("kernels", None)  # told by the notifications as far as it matters
    return text


def _worst(results: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """The worst results, in their order."""
    if count >= len(results):
        return results
    order = sorted(range(len(results)), key=lambda number: (_RANK[results[number]["level"]], number))
    return [results[number] for number in sorted(order[:count])]


def _say(run: dict[str, Any], notice: dict[str, Any], results: int, others: int, notices: list[dict[str, Any]]) -> None:
    parts = []
    if results:
        levels = [result["level"] for result in run["results"]]
        worst = max(levels, key=lambda level: _RANK[level], default="")
        kept = f"; the {len(levels)} kept are the worst, down to level {worst}" if worst else ""
        parts.append(f"{results} results were left out{kept}")
    if others:
        parts.append(f"{others} notifications were left out")
    text = f"{', and '.join(parts)}: code scanning takes {MAX_RESULTS} results and {MAX_BYTES} bytes (compressed)."
    said = {**notice, "message": {"text": text[0].upper() + text[1:]}}
    run["invocations"][0]["toolExecutionNotifications"] = [*notices, said]


def _compressed(text: str) -> int:
    """The size after gzip; the plain size where even that is small enough."""
    data = text.encode("utf-8", "backslashreplace")
    return len(data) if len(data) <= MAX_BYTES else len(gzip.compress(data, 6, mtime=0))
