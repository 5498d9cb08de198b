"""GitLab's code quality report (a JSON list, `artifacts: reports: codequality`).

GitLab drops entries whose fingerprint it has seen in the file, so that the fingerprint covers the path as well; it is
the same from run to run as long as the kernel, the line's text and the path are.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from warplint.finding import Level
from warplint_reports.report import Report, sentences, visible

_SEVERITY = {Level.ERROR: "critical", Level.WARNING: "major", Level.NOTE: "info"}


def render(report: Report) -> str:
    """JSON text ending in a newline."""
    entries = [
        _entry(
            visible(sentences(finding)), finding.rule, finding.fingerprint, finding.location.path, finding.location.line
        )
        | {"severity": _SEVERITY[finding.level]}
        for _, finding in report.findings()
    ]
    for file in report.files:
        if file.problem:
            entries.append(_entry(visible(file.problem), "file-problem", "", file.path, 1) | {"severity": "blocker"})
    return json.dumps(entries, indent=2) + "\n"


def _entry(text: str, rule: str, fingerprint: str, path: str, line: int) -> dict[str, Any]:
    identity = "\0".join((rule, path, fingerprint))
    return {
        "description": text,
        "check_name": rule,
        "fingerprint": sha256(identity.encode("utf-8", "replace")).hexdigest(),
        "location": {"path": path, "lines": {"begin": max(line, 1)}},
    }
