"""SARIF 2.1.0 for code scanning and editors.

Every enabled rule is listed on every run, sorted by id and with constant text, because consumers store rules apart from
results. Primary regions stay on one line: an annotation that spans lines is shown only when all of them changed. No
`security-severity`: these are correctness faults, and its presence would file them as vulnerabilities.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from warplint.finding import FileReport, Finding, KernelReport, Level, Location, RuleInfo, Suppressed, Verdict
from warplint_reports import sarif_limits as limits
from warplint_reports.linehash import line_hashes
from warplint_reports.report import Report, lines_of

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MAX_DESCRIPTION = 1024
_SEVERITY = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "recommendation"}

_NOTIFICATIONS = (
    (
        "file-incomplete",
        "A file was not analysed completely",
        "warning",
        "Part of the file could not be read: nothing is claimed about it. The message says why.",
    ),
    (
        "file-problem",
        "A file could not be read or analysed",
        "error",
        "There is no verdict on any kernel of the file. The message says why; the exit code is 2.",
    ),
    (
        "kernel-incomplete",
        "A kernel was not analysed completely",
        "warning",
        "What could not be established is named with its line. The kernel's findings hold; others may be missing.",
    ),
    (*limits.NOTIFICATION, "The worst results are kept. The other formats have no limit and hold all of them."),
)


def render(report: Report) -> str:
    """The log as JSON text ending in a newline."""
    return limits.fitted(log(report), truncation_notice())


def truncation_notice() -> dict[str, Any]:
    """The notification that something was left out, without its text."""
    return _notice(limits.NOTIFICATION[0], "warning", "", "", 0)


def log(report: Report) -> dict[str, Any]:
    """The log as plain data: one run."""
    rules = sorted(report.rules, key=lambda rule: rule.slug)
    index = {rule.slug: number for number, rule in enumerate(rules)}
    category = report.category.strip("/") or "warplint"
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "warplint",
                        "semanticVersion": report.version or "0.0.0",
                        "rules": [_rule(rule) for rule in rules],
                        "notifications": [
                            {
                                "id": name,
                                "name": _pascal(name),
                                "shortDescription": {"text": f"{text}."},
                                "fullDescription": {"text": full},
                                "help": {"text": full},
                                "defaultConfiguration": {"level": level},
                            }
                            for name, text, level, full in _NOTIFICATIONS
                        ],
                    }
                },
                "automationDetails": {"id": f"{category}/"},
                "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "The folder warplint was started in."}}},
                "columnKind": "utf16CodeUnits",
                "artifacts": [{"location": _artifact(file.path), "roles": ["analysisTarget"]} for file in report.files],
                "results": [
                    result for file in report.files for result in _results(file, index, report.show_suppressed)
                ],
                "invocations": [
                    {
                        "executionSuccessful": not any(file.problem for file in report.files),
                        "toolExecutionNotifications": [
                            notice for file in report.files for notice in _notifications(file)
                        ],
                    }
                ],
                "properties": {
                    "kernels": [
                        {
                            "name": kernel.name,
                            "file": kernel.path,
                            "line": kernel.line,
                            "verdict": kernel.verdict.value,
                            "reasons": [
                                {"text": reason.text, **({"line": reason.line} if reason.line else {})}
                                for reason in kernel.reasons
                            ],
                            "facts": dict(kernel.facts),
                        }
                        for _, kernel in report.kernels()
                    ],
                    **_shard(report),
                },
            }
        ],
    }


def _shard(report: Report) -> dict[str, Any]:
    """For `warplint merge`: which part this is, and how many results, notifications and kernels each file has."""
    if report.shard is None:
        return {}
    sizes = [
        [
            position,
            len(_findings_of(file)) + (len(file.suppressed) if report.show_suppressed else 0),
            len(_notifications(file)),
            len(file.kernels),
        ]
        for position, file in zip(report.shard.positions, report.files, strict=True)
    ]
    return {"shard": {"number": report.shard.number, "count": report.shard.count, "files": sizes}}


def _findings_of(file: FileReport) -> list[Finding]:
    return [*file.findings, *(finding for kernel in file.kernels for finding in kernel.findings)]


# ---------------------------------------------------------------------------------------------------- rules
def _rule(info: RuleInfo) -> dict[str, Any]:
    tags = ["gpu", info.family, info.symptom.value, *(["debugging-guide"] if info.guide else [])]
    return {
        "id": info.slug,
        "name": _pascal(info.slug),
        "shortDescription": {"text": _cut(f"{info.summary}.")},
        "fullDescription": {"text": _cut(_prose(info.why))},
        "help": {"text": _help_text(info), "markdown": _help_markdown(info)},
        "defaultConfiguration": {"level": info.level.value},
        "properties": {
            "tags": tags,
            "precision": info.precision,
            "problem.severity": _SEVERITY[info.level],
        },
    }


def _pascal(slug: str) -> str:
    return "".join(part.capitalize() for part in slug.split("-"))


def _prose(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str) -> str:
    return text if len(text) <= MAX_DESCRIPTION else text[: MAX_DESCRIPTION - 3] + "..."


def _help_text(info: RuleInfo) -> str:
    return f"{info.summary}.\n\n{info.why}\n\nBad:\n\n{info.bad}\n\nGood:\n\n{info.good}\n"


def _help_markdown(info: RuleInfo) -> str:
    facts = f"`{info.slug}` | {info.level.value} | symptom: {info.symptom.value} | family: {info.family}"
    return (
        f"# {info.summary}\n\n{facts}\n\n{info.why}\n\n## Bad\n\n```cuda\n{info.bad}\n```\n\n"
        f"## Good\n\n```cuda\n{info.good}\n```\n"
    )


# -------------------------------------------------------------------------------------------------- results
def _results(file: FileReport, index: dict[str, int], suppressed: bool) -> list[dict[str, Any]]:
    findings = _findings_of(file)
    set_apart = file.suppressed if suppressed else ()
    everything = [*findings, *(one.finding for one in set_apart)]
    own = [finding.location.line for finding in everything if finding.location.path == file.path]
    hashes = line_hashes(file.data, own)
    results = [_result(file, finding, index, hashes) for finding in findings]
    for one in set_apart:
        result = _result(file, one.finding, index, hashes)
        result["suppressions"] = [_suppression(file, one)]
        if one.by == "baseline":
            result["baselineState"] = "unchanged"
        results.append(result)
    return results


def _suppression(file: FileReport, one: Suppressed) -> dict[str, Any]:
    """How a result was set apart. A comment stands in the source, settings and baselines beside it."""
    said = f"{one.where}: {one.reason}" if one.reason else one.where
    kind = "inSource" if one.by == "comment" else "external"
    data: dict[str, Any] = {"kind": kind, "status": "accepted", "justification": _plain(said)}
    if one.line:
        physical = {"artifactLocation": _artifact(file.path), "region": {"startLine": one.line}}
        data["location"] = {"physicalLocation": physical}
    return data


def _result(file: FileReport, finding: Finding, index: dict[str, int], hashes: dict[int, str]) -> dict[str, Any]:
    place = {"id": 0, "physicalLocation": _physical(file, finding.location)}
    if finding.kernel:
        place["logicalLocations"] = [{"name": finding.kernel, "kind": "function"}]
    prints = {"warplintFingerprint/v1": finding.fingerprint} if finding.fingerprint else {}
    if line_hash := hashes.get(finding.location.line):
        prints["primaryLocationLineHash"] = line_hash
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        **({"ruleIndex": index[finding.rule]} if finding.rule in index else {}),
        "level": finding.level.value,
        "message": {"text": _message(finding)},
        "locations": [place],
        "partialFingerprints": dict(sorted(prints.items())),
        "properties": {
            "kernel": finding.kernel,
            "symptom": finding.symptom.value,
            **({"threads": finding.threads} if finding.threads else {}),
            **(
                {"guards": [f"{g.text} (line {g.line}): {g.threads}" for g in finding.guards]} if finding.guards else {}
            ),
        },
    }
    if finding.related:
        result["relatedLocations"] = [
            _location(file, related, number) for number, related in enumerate(finding.related[: limits.MAX_RELATED], 1)
        ]
    if steps := limits.middle_out(finding.steps, limits.MAX_STEPS):
        result["codeFlows"] = [
            {"threadFlows": [{"locations": [{"location": _location(file, step, None)} for step in steps]}]}
        ]
    return result


def _message(finding: Finding) -> str:
    """Message, consequence and remedy, then links to the related places. The first sentence stands alone."""
    sentences = [_sentence(finding.message)]
    if finding.threads and finding.threads not in finding.message:
        sentences.append(f"Executed by {_plain(finding.threads)}.")
    sentences.extend(_sentence(text) for text in (finding.why, finding.remedy) if text)
    links = [
        f"[line {related.line}]({number})" + (f": {_plain(related.message)}" if related.message else "")
        for number, related in enumerate(finding.related[: limits.MAX_RELATED], 1)
    ]
    if len(finding.related) > len(links):
        links.append(f"{len(finding.related) - len(links)} more places")
    if links:
        sentences.append(f"See {'; '.join(links)}.")
    return " ".join(sentences)


def _plain(text: str) -> str:
    """Prose in which nothing of the source can be taken for a link to a related location."""
    return " ".join(text.split()).replace("](", "] (")


def _sentence(text: str) -> str:
    flat = _plain(text)
    return flat if flat.endswith((".", "!", "?")) else f"{flat}."


def _location(file: FileReport, location: Location, number: int | None) -> dict[str, Any]:
    out: dict[str, Any] = {} if number is None else {"id": number}
    out["physicalLocation"] = _physical(file, location)
    out["message"] = {"text": _plain(location.message) or f"line {location.line}"}
    return out


def _physical(file: FileReport, location: Location) -> dict[str, Any]:
    line, column = max(location.line, 1), max(location.column, 1)
    end = location.end_column
    if location.end_line not in (0, location.line) or end <= column:
        # over several lines, or without an end: to the end of its first line
        text = lines_of(file).line_text(line) if location.path == file.path else ""
        end = max(len(text.encode("utf-16-le", "surrogatepass")) // 2 + 1, column + 1)
    region = {"startLine": line, "startColumn": column, "endLine": line, "endColumn": end}
    return {"artifactLocation": _artifact(location.path), "region": region}


def _artifact(path: str) -> dict[str, str]:
    """A relative URI below %SRCROOT%, or an absolute one for files outside the working directory."""
    if path.startswith("/"):
        return {"uri": f"file://{quote(path)}"}
    if len(path) > 2 and path[1:3] == ":/":
        return {"uri": f"file:///{path[:2]}{quote(path[2:])}"}
    return {"uri": quote(path) or "unnamed", "uriBaseId": "%SRCROOT%"}


# -------------------------------------------------------------------------------------------- notifications
def _notifications(file: FileReport) -> list[dict[str, Any]]:
    notices = []
    if file.problem:
        notices.append(_notice("file-problem", "error", f"{file.path}: {file.problem}", file.path, 0))
    for reason in file.reasons:
        notices.append(_notice("file-incomplete", "warning", reason.text, file.path, reason.line))
    for kernel in file.kernels:
        if kernel.verdict is Verdict.INCOMPLETE:
            notices.extend(_kernel_notices(kernel))
    return notices


def _kernel_notices(kernel: KernelReport) -> list[dict[str, Any]]:
    return [
        _notice(
            "kernel-incomplete", "warning", f"{kernel.name}: {reason.text}", kernel.path, reason.line or kernel.line
        )
        for reason in kernel.reasons
    ]


def _notice(name: str, level: str, text: str, path: str, line: int) -> dict[str, Any]:
    number = [item[0] for item in _NOTIFICATIONS].index(name)
    notice = {"descriptor": {"id": name, "index": number}, "level": level, "message": {"text": _plain(text)}}
    if not path:
        return notice
    physical: dict[str, Any] = {"artifactLocation": _artifact(path)}
    if line:
        physical["region"] = {"startLine": line}
    return {**notice, "locations": [{"physicalLocation": physical}]}
