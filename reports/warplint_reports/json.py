"""The report as JSON for scripts: everything that was established, under a versioned schema name.

Keys are only ever added under `warplint-report/1`; a change of meaning makes it `/2`.
"""

from __future__ import annotations

import json
from typing import Any

from warplint.finding import FileReport, Finding, KernelReport, Location, Reason, Suppressed, TreeNode, TreeOp
from warplint_reports.report import Report

SCHEMA = "warplint-report/1"


def render(report: Report) -> str:
    """JSON text ending in a newline."""
    return json.dumps(as_data(report), indent=2) + "\n"


def as_data(report: Report) -> dict[str, Any]:
    """The report as dicts, lists, strings and numbers."""
    return {
        "schema": SCHEMA,
        "version": report.version,
        **(
            {
                "shard": {
                    "number": report.shard.number,
                    "count": report.shard.count,
                    "positions": list(report.shard.positions),
                }
            }
            if report.shard
            else {}
        ),
        "files": [_file(file) for file in report.files],
    }


def _file(file: FileReport) -> dict[str, Any]:
    return {
        "path": file.path,
        "problem": file.problem,
        "reasons": [_reason(reason) for reason in file.reasons],
        "suppressed": len(file.suppressed),
        "suppressions": [_suppressed(one) for one in file.suppressed],
        "findings": [_finding(finding) for finding in file.findings],
        "kernels": [_kernel(kernel) for kernel in file.kernels],
    }


def _kernel(kernel: KernelReport) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": kernel.name,
        "line": kernel.line,
        "verdict": kernel.verdict.value,
        "reasons": [_reason(reason) for reason in kernel.reasons],
        "facts": dict(kernel.facts),
        "findings": [_finding(finding) for finding in kernel.findings],
    }
    if kernel.tree is not None:
        data["tree"] = tree(kernel.tree)
    return data


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "level": finding.level.value,
        "symptom": finding.symptom.value,
        "message": finding.message,
        "kernel": finding.kernel,
        "location": _location(finding.location),
        "threads": finding.threads,
        "guards": [{"text": g.text, "threads": g.threads, "line": g.line} for g in finding.guards],
        "why": finding.why,
        "remedy": finding.remedy,
        "related": [_location(place) for place in finding.related],
        "steps": [_location(place) for place in finding.steps],
        "fingerprint": finding.fingerprint,
    }


def _suppressed(one: Suppressed) -> dict[str, Any]:
    return {
        "by": one.by,
        "where": one.where,
        "reason": one.reason,
        "line": one.line,
        "finding": _finding(one.finding),
    }


def _location(place: Location) -> dict[str, Any]:
    data: dict[str, Any] = {
        "path": place.path,
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
    }
    if place.message:
        data["message"] = place.message
    return data


def _reason(reason: Reason) -> dict[str, Any]:
    return {"text": reason.text, "line": reason.line}


def tree(node: TreeNode) -> dict[str, Any]:
    """A role tree as nested dicts; the engine bounds its depth."""
    return {
        "kind": node.kind,
        "label": node.label,
        "line": node.line,
        "threads": node.threads,
        "mask": node.mask,
        "count": node.count,
        "certain": node.certain,
        "items": [tree(item) if isinstance(item, TreeNode) else _op(item) for item in node.items],
    }


def _op(op: TreeOp) -> dict[str, Any]:
    data: dict[str, Any] = {"op": op.op, "spelling": op.spelling, "line": op.line, "threads": op.threads}
    if op.detail:
        data["detail"] = op.detail
    return data
