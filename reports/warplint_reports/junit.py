"""JUnit XML: a suite for each file, a case for each finding and for each kernel that has none.

A finding at or above the level that fails the run is a failure; below it, the case passes and says it as output. A
kernel that could not be judged is a skipped case, a file that could not be analysed an error.
"""

from __future__ import annotations

from xml.etree import ElementTree as xml

from warplint.finding import FileReport, Finding, Verdict
from warplint_reports.report import Report, sentences, visible


def render(report: Report) -> str:
    """The document, ending in a newline."""
    root = xml.Element("testsuites", name="warplint")
    for file in report.files:
        root.append(_suite(report, file))
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"


def _suite(report: Report, file: FileReport) -> xml.Element:
    suite = xml.Element("testsuite", name=_text(file.path))
    if file.problem:
        xml.SubElement(_case(suite, file, "file"), "error", message=_text(file.problem), type="file-problem")
    for reason in file.reasons:
        xml.SubElement(_case(suite, file, "file"), "skipped", message=_text(reason.text))
    for finding in file.findings:
        _finding(report, suite, file, finding)
    for kernel in file.kernels:
        for finding in kernel.findings:
            _finding(report, suite, file, finding)
        if kernel.verdict is Verdict.INCOMPLETE:
            said = "; ".join(f"line {r.line}: {r.text}" if r.line else r.text for r in kernel.reasons)
            xml.SubElement(_case(suite, file, kernel.name, kernel.line), "skipped", message=_text(said))
        elif not kernel.findings:
            _case(suite, file, kernel.name, kernel.line)
    if not len(suite):
        _case(suite, file, "file")
    suite.set("tests", str(len(suite)))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(case.find(tag) is not None for case in suite)))
    return suite


def _case(suite: xml.Element, file: FileReport, name: str, line: int = 0) -> xml.Element:
    case = xml.SubElement(suite, "testcase", classname=_text(file.path), name=_text(name), time="0")
    if line:
        case.set("file", _text(file.path))
        case.set("line", str(line))
    return case


def _finding(report: Report, suite: xml.Element, file: FileReport, finding: Finding) -> None:
    place = finding.location
    where = f"{finding.kernel or 'file'}: {finding.rule} at line {place.line}"
    case = _case(suite, file, where, place.line)
    text = _text(f"{place.path}:{place.line}:{place.column}: {finding.level.value}: {sentences(finding)}")
    if finding.level.rank >= report.fail_on.rank:
        failure = xml.SubElement(case, "failure", message=_text(finding.message), type=finding.rule)
        failure.text = text
    else:
        xml.SubElement(case, "system-out").text = text


def _text(text: str) -> str:
    """Text that XML can hold: no control characters, no halves of characters, none of the two non-characters."""
    return visible(text).replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")
