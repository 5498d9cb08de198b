"""Annotations of GitHub Actions: workflow commands on standard output, one a finding, the worst first.

GitHub shows ten errors, ten warnings and ten notices of a step and drops the others without a word. What is beyond
that is printed as an ordinary line of the log, and the last notice says how much it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Location
from warplint_reports.report import Report, counted, sentences, visible

SHOWN = 10
"""Annotations of a kind that GitHub shows for a step."""
_COMMAND = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


def render(report: Report) -> str:
    """The commands, and a notice when GitHub would not show all of them."""
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    left = {"error": SHOWN, "warning": SHOWN, "notice": SHOWN - 1}  # one notice is for what is beyond
    beyond: list[str] = []
    for file in report.files:
        if file.problem:
            place = Location(file.path, 0)
            yield from _annotation(
                "error", "warplint", place, file.problem, f"{file.path}: {file.problem}", left, beyond
            )
    found = sorted(report.findings(), key=lambda pair: -pair[1].level.rank)
    for _, finding in found:
        place = finding.location
        line = f"{place.path}:{place.line}:{place.column}: {finding.level.value}: {finding.message} [{finding.rule}]"
        title = f"warplint ({finding.rule})"
        yield from _annotation(_COMMAND[finding.level], title, place, _text(finding), line, left, beyond)
    yield from beyond
    if beyond:
        text = f"{counted(len(beyond), 'more finding')} in the log of this step only: GitHub shows {SHOWN} of a kind."
        yield f"::notice title=warplint::{data(text)}"


def _annotation(
    kind: str, title: str, place: Location, text: str, line: str, left: dict[str, int], beyond: list[str]
) -> Iterator[str]:
    """The command; where GitHub would not show it, the line goes to `beyond`."""
    if not left[kind]:
        beyond.append(visible(" ".join(line.split())))
        return
    left[kind] -= 1
    values = {"title": title, "file": place.path}
    if place.line:
        values |= {"line": str(place.line), "endLine": str(place.line), "col": str(place.column)}
        if place.end_line in (0, place.line) and place.end_column > place.column:
            values["endColumn"] = str(place.end_column)
    listed = ",".join(f"{name}={value(text)}" for name, text in values.items())
    yield f"::{kind} {listed}::{data(text)}"


def _text(finding: Finding) -> str:
    lines = [sentences(finding)]
    lines += [f"line {place.line}: {place.message}" for place in finding.steps if place.message]
    lines += [f"see {place.path}:{place.line}: {place.message}" for place in finding.related if place.message]
    return "\n".join(lines)


def data(text: str) -> str:
    """A command's text as the runner reads it; what a terminal would obey is made visible first."""
    shown = "\n".join(visible(line) for line in text.split("\n"))
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def value(text: str) -> str:
    """A command's property as the runner reads it."""
    return data(text).replace(":", "%3A").replace(",", "%2C")
