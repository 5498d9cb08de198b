"""The report for terminals and logs: compiler-like lines that editors can jump to, with the evidence below each.

    gemm.cu:131:9: error: `__syncthreads()` is reached by 32 of 256 threads [cta-barrier-in-divergent-code]
      131 |         __syncthreads();
          |         ^^^^^^^^^^^^^^^
      threads   32 of 256 threads: warp 4
      under     warp_id == 4 (line 120): 32 of 256 threads: warp 4
      deadlock  ...what the hardware does...
      fix       ...what to change...
      see       gemm.cu:120:5: ...

and at the end one verdict per kernel, with the reasons where it is incomplete.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterator

from warplint.finding import FileReport, Finding, KernelReport, Level, Location, Suppressed, Verdict
from warplint_reports.report import Report, counted, lines_of, tally, visible

WIDTH = 100
"""Prose is wrapped here; source lines are cut to a window of this many columns around the place."""

_STYLE = {
    "error": "1;31",
    "warning": "1;33",
    "note": "1;36",
    "clean": "32",
    "findings": "1;31",
    "incomplete": "1;33",
    "dim": "2",
    "bold": "1",
    "caret": "1;32",
}


def render(report: Report, *, color: bool = False) -> str:
    """The whole report, ending in a newline. `color` adds ANSI escapes."""
    paint = _painter(color)
    out: list[str] = []
    for file in report.files:
        if file.problem:
            out.append(f"{_bold(paint, visible(file.path))}: {paint('error', 'error')}: {visible(file.problem)}")
        for reason in file.reasons:
            place = f"{visible(file.path)}:{reason.line}" if reason.line else visible(file.path)
            out.append(f"{_bold(paint, place)}: {paint('incomplete', 'incomplete')}: {visible(reason.text)}")
    if out:
        out.append("")
    for file, finding in report.findings():
        out.extend(_finding(file, finding, paint))
        out.append("")
    if report.show_suppressed:
        for file, one in report.suppressed():
            out.extend(_suppressed(file, one, paint))
            out.append("")
    out.extend(_verdicts(report, paint))
    out.append(_summary(report, paint))
    return "\n".join(out) + "\n"


def _painter(color: bool):
    def paint(style: str, text: str) -> str:
        return f"\x1b[{_STYLE[style]}m{text}\x1b[0m" if color else text

    return paint


def _bold(paint, text: str) -> str:
    return paint("bold", text)


def _place(location: Location) -> str:
    return f"{visible(location.path)}:{location.line}:{location.column}"


def _finding(file: FileReport, finding: Finding, paint) -> Iterator[str]:
    level = paint(finding.level.value, finding.level.value)
    message = visible(" ".join(finding.message.split())).rstrip(".")
    yield f"{_bold(paint, _place(finding.location))}: {level}: {message} {paint('dim', f'[{finding.rule}]')}"
    yield from _excerpt(file, finding.location, paint)
    if finding.threads:
        yield from _row("threads", finding.threads, paint)
    label = "under"
    for guard in finding.guards:
        yield from _row(label, f"`{guard.text}` (line {guard.line}): {guard.threads}", paint)
        label = ""
    for number, step in enumerate(finding.steps, 1):
        yield from _row(f"step {number}", f"line {step.line}: {step.message}", paint)
    if finding.why:
        yield from _row(finding.symptom.value, finding.why, paint)
    if finding.remedy:
        yield from _row("fix", finding.remedy, paint)
    label = "see"
    for place in finding.related:
        text = f"{_place(place)}: {place.message}" if place.message else _place(place)
        yield from _row(label, text, paint, wrap=False)
        label = ""


def _suppressed(file: FileReport, one: Suppressed, paint) -> Iterator[str]:
    finding = one.finding
    message = visible(" ".join(finding.message.split())).rstrip(".")
    head = paint("dim", f"suppressed {finding.level.value}")
    yield f"{_bold(paint, _place(finding.location))}: {head}: {message} {paint('dim', f'[{finding.rule}]')}"
    yield from _excerpt(file, finding.location, paint)
    yield from _row("because", f"{one.by}, {one.where}" + (f": {one.reason}" if one.reason else ""), paint)


def _row(label: str, text: str, paint, *, wrap: bool = True) -> Iterator[str]:
    flat = visible(" ".join(text.split()))
    lines = textwrap.wrap(flat, WIDTH - 18, break_long_words=False, break_on_hyphens=False) if wrap else [flat]
    for line in lines or [""]:
        yield f"    {paint('dim', f'{label:<14}')}{line}"
        label = ""


def _excerpt(file: FileReport, location: Location, paint) -> Iterator[str]:
    if not file.data or location.path != file.path:
        return
    raw = lines_of(file).line_text(location.line)
    units = raw.encode("utf-16-le", "surrogatepass")

    def until(column: int) -> str:
        return units[: 2 * max(column - 1, 0)].decode("utf-16-le", "replace")

    end_column = location.end_column if location.end_line in (0, location.line) else len(units) // 2 + 1
    before, through = until(location.column), until(max(end_column, location.column + 1))
    shown, start, end = _expand(raw), _columns(_expand(before)), _columns(_expand(through))
    if _columns(shown) > WIDTH:  # generated lines run to kilobytes: a window around the place
        left = max(0, min(len(_expand(before)) - 20, len(shown) - WIDTH + 8))
        lead = "..." if left else ""
        start += len(lead) - left
        end += len(lead) - left
        shown = lead + shown[left : left + WIDTH - 8] + ("..." if left + WIDTH - 8 < len(shown) else "")
        end = min(end, len(shown))
    number = str(location.line)
    gutter = " " * max(len(number), 5)
    yield f"  {paint('dim', f'{number:>5} |')} {shown}"
    yield f"  {paint('dim', f'{gutter} |')} {' ' * start}{paint('caret', '^' * max(end - start, 1))}"


def _expand(text: str) -> str:
    return visible(text.expandtabs(4))


def _columns(text: str) -> int:
    """Columns a terminal uses: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _verdicts(report: Report, paint) -> Iterator[str]:
    rows = [
        (
            kernel,
            _cut(visible(kernel.name), 48),
            _cut(f"{visible(file.path)}:{kernel.line}", 72),
            ", ".join(filter(None, (tally(kernel.findings), _set_apart(file, kernel)))),
        )
        for file, kernel in report.kernels()
    ]
    if not rows:
        return
    names = max(len("kernel"), *(len(name) for _, name, _, _ in rows))
    places = max(len("at"), *(len(place) for _, _, place, _ in rows))
    yield paint("dim", f"{'kernel':<{names}}  {'at':<{places}}  {'verdict':<10}  findings")
    for kernel, name, place, found in rows:
        verdict = paint(kernel.verdict.value, f"{kernel.verdict.value:<10}")
        yield f"{name:<{names}}  {place:<{places}}  {verdict}  {found or '-'}"
        for reason in kernel.reasons:
            text = f"line {reason.line}: {reason.text}" if reason.line else reason.text
            for line in textwrap.wrap(visible(text), WIDTH - 4, break_long_words=False):
                yield f"    {line}"
    yield ""


def _set_apart(file: FileReport, kernel: KernelReport) -> str:
    number = sum(one.finding.kernel == kernel.name for one in file.suppressed)
    return f"{number} suppressed" if number else ""


def _cut(text: str, width: int) -> str:
    """`text` in at most `width` characters; what is cut is its beginning, for names differ at their ends."""
    return text if len(text) <= width else "..." + text[3 - width :]


def _summary(report: Report, paint) -> str:
    kernels = [kernel for _, kernel in report.kernels()]
    found = tally(finding for _, finding in report.findings())
    levels = {finding.level for _, finding in report.findings()}
    style = "error" if Level.ERROR in levels else "warning" if levels else "clean"
    parts = [
        paint(style, found or "no findings")
        + f" in {counted(len(kernels), 'kernel')} of {counted(len(report.files), 'file')}"
    ]
    open_ones = sum(kernel.verdict is Verdict.INCOMPLETE for kernel in kernels)
    if open_ones:
        parts.append(paint("incomplete", f"{open_ones} incomplete"))
    if suppressed := sum(1 for _ in report.suppressed()):
        parts.append(paint("dim", f"{suppressed} suppressed"))
    unread = sum(bool(file.problem) for file in report.files)
    if unread:
        parts.append(paint("error", f"{counted(unread, 'file')} with problems"))
    return "; ".join(parts)
