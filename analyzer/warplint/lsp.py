"""A language server: findings while a kernel is edited, who executes a line, and a quick fix that suppresses.

Needs the extra `warplint[lsp]` (pygls). Columns are UTF-16 units, the protocol's default and ours. One file is analysed
at a time, in a thread, so that the editor is answered meanwhile; a text that changed again is analysed once it rests.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote, urlparse

from lsprotocol import types as lsp
from msgspec.structs import replace
from pygls.lsp.server import LanguageServer

from warplint import __version__
from warplint.config import Config, ConfigError, find, load
from warplint.engine import Settings, lint_bytes
from warplint.finding import FileReport, Finding, KernelReport, Level, Location, TreeNode, TreeOp

PAUSE = 0.4
"""Seconds without a change after which a text is analysed."""
_SEVERITY = {
    Level.ERROR: lsp.DiagnosticSeverity.Error,
    Level.WARNING: lsp.DiagnosticSeverity.Warning,
    Level.NOTE: lsp.DiagnosticSeverity.Information,
}
_NAME = "warplint"


class Server(LanguageServer):
    """The server's state: the last report of each open document."""

    def __init__(self) -> None:
        super().__init__(_NAME, __version__)
        self.reports: dict[str, FileReport] = {}
        self.pending: dict[str, asyncio.Task[None]] = {}
        self.turn = asyncio.Lock()

    def soon(self, uri: str, pause: float = 0.0) -> None:
        """Analyse a document after a pause; a newer request takes the place of one that still waits."""
        if waiting := self.pending.pop(uri, None):
            waiting.cancel()
        self.pending[uri] = asyncio.get_running_loop().create_task(self._analyse(uri, pause))

    def forget(self, uri: str) -> None:
        """The document was closed: no finding of it is shown any more."""
        if waiting := self.pending.pop(uri, None):
            waiting.cancel()
        self.reports.pop(uri, None)
        self._publish(uri, [], None)

    async def _analyse(self, uri: str, pause: float) -> None:
        await asyncio.sleep(pause)
        async with self.turn:
            document = self.workspace.get_text_document(uri)
            version, text = document.version, document.source
            report = await asyncio.to_thread(analyse, uri, text)
        if uri in self.pending and self.workspace.get_text_document(uri).version == version:
            self.reports[uri] = report
            self._publish(uri, list(diagnostics(report, uri, text)), version)

    def _publish(self, uri: str, found: list[lsp.Diagnostic], version: int | None) -> None:
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found, version))


def server() -> LanguageServer:
    """A server with its features; `start_io` runs it."""
    made = Server()

    @made.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        made.soon(params.text_document.uri)

    @made.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        made.soon(params.text_document.uri)

    @made.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        made.soon(params.text_document.uri, PAUSE)

    @made.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        made.forget(params.text_document.uri)

    @made.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        report = made.reports.get(params.text_document.uri)
        text = who(report, params.position.line + 1) if report else ""
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text)) if text else None

    @made.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix]))
    def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = params.text_document.uri
        lines = made.workspace.get_text_document(uri).lines
        ours = [one for one in params.context.diagnostics if one.source == _NAME]
        return [fix for one in ours for fix in suppressions(uri, one, lines)]

    return made


# ------------------------------------------------------------------------------------------------- what is said
def analyse(uri: str, text: str) -> FileReport:
    """The report on a document's text under the settings that apply to its file."""
    path = path_of(uri)
    settings = Settings(tree=True)
    loaded = Config()
    where = find(path)
    problem = ""
    if where:
        try:
            loaded = load(where)
        except ConfigError as error:
            problem = str(error)
    try:
        chosen = replace(loaded.settings_for(path, settings, {}), folder=os.path.dirname(path))
        report = lint_bytes(path, text.encode("utf-8", "replace"), chosen)
    except ValueError as error:  # a rule in the settings that does not exist
        report, problem = FileReport(path), str(error)
    return replace(report, problem="; ".join(filter(None, (problem, report.problem))))


def path_of(uri: str) -> str:
    """The file of a URI; for documents without one (untitled), a name that is good enough for settings."""
    parsed = urlparse(uri)
    path = unquote(parsed.path)
    if parsed.scheme != "file":
        return os.path.join(os.getcwd(), path.rpartition("/")[2] or "untitled.cu")
    return path[1:] if re.match(r"/[A-Za-z]:", path) else path


def diagnostics(report: FileReport, uri: str, text: str) -> Iterator[lsp.Diagnostic]:
    """The findings, what kept a kernel from being judged, and problems, as an editor shows them."""
    lines = text.split("\n")
    if report.problem:
        yield lsp.Diagnostic(_range(Location("", 1), lines), report.problem, lsp.DiagnosticSeverity.Error, source=_NAME)
    for finding in (*report.findings, *(found for kernel in report.kernels for found in kernel.findings)):
        yield lsp.Diagnostic(
            range=_range(finding.location, lines),
            message=_message(finding),
            severity=_SEVERITY[finding.level],
            code=finding.rule,
            source=_NAME,
            related_information=[
                lsp.DiagnosticRelatedInformation(
                    lsp.Location(uri if place.path == report.path else _uri(place.path), _range(place, lines)),
                    place.message or f"line {place.line}",
                )
                for place in (*finding.steps, *finding.related)
            ],
        )
    reasons = [(0, reason) for reason in report.reasons]
    reasons += [(kernel.line, reason) for kernel in report.kernels for reason in kernel.reasons]
    for line, reason in reasons:
        place = Location(report.path, reason.line or line or 1)
        yield lsp.Diagnostic(
            _range(place, lines), f"not judged completely: {reason.text}", lsp.DiagnosticSeverity.Hint, source=_NAME
        )


def _message(finding: Finding) -> str:
    parts = [finding.message, finding.why, finding.remedy]
    return "\n".join(" ".join(part.split()) for part in parts if part)


def _uri(path: str) -> str:
    from pathlib import Path

    return Path(os.path.abspath(path)).as_uri()


def _range(place: Location, lines: list[str]) -> lsp.Range:
    """A place as a range; without an end, to the end of its line."""
    line = max(place.line, 1) - 1
    start = max(place.column, 1) - 1
    end = place.end_column - 1
    if place.end_line not in (0, place.line) or end <= start:
        text = lines[line] if line < len(lines) else ""
        end = max(len(text.rstrip("\r").encode("utf-16-le", "surrogatepass")) // 2, start + 1)
    return lsp.Range(lsp.Position(line, start), lsp.Position(line, end))


def who(report: FileReport, line: int) -> str:
    """Who executes a line, in Markdown: the branches around it, the operations on it; empty where nothing is known."""
    said: list[str] = []
    for kernel in report.kernels:
        said.extend(_who(kernel, line))
    return "\n\n".join(said)


def _who(kernel: KernelReport, line: int) -> Iterator[str]:
    if kernel.tree is None:
        return
    stack: list[tuple[TreeNode, tuple[TreeNode, ...]]] = [(kernel.tree, ())]
    seen: set[str] = set()
    while stack:
        node, above = stack.pop()
        around = (*above, node)
        if node.line == line and node.kind not in ("kernel", "inline"):
            bound = "" if node.certain else "at most "
            text = f"**{node.kind}** `{_code(node.label)}`: {bound}{node.threads}"
            if text not in seen:
                seen.add(text)
                yield text
        for item in node.items:
            if isinstance(item, TreeNode):
                stack.append((item, around))
            elif item.line == line:
                text = _operation(item, around)
                if text not in seen:
                    seen.add(text)
                    yield text


def _operation(op: TreeOp, around: tuple[TreeNode, ...]) -> str:
    detail = f" ({op.detail})" if op.detail else ""
    guards = [f"- `{_code(node.label)}` (line {node.line})" for node in around if node.kind in ("if", "else", "case")]
    under = "\n\nunder\n" + "\n".join(guards) if guards else ""
    return f"**{op.op}**{detail}: {op.threads}{under}"


def _code(text: str) -> str:
    return text.replace("`", "'")


def suppressions(uri: str, found: lsp.Diagnostic, lines: Sequence[str]) -> Iterator[lsp.CodeAction]:
    """The quick fix for a finding: a comment on a line of its own above it."""
    rule = found.code
    if not isinstance(rule, str) or rule in ("unused-suppression", "invalid-suppression"):
        return
    number = found.range.start.line
    text = lines[number] if number < len(lines) else ""
    indent = text[: len(text) - len(text.lstrip(" \t"))]
    place = lsp.Position(number, 0)
    edit = lsp.TextEdit(lsp.Range(place, place), f"{indent}// warplint: ignore[{rule}] reason\n")
    yield lsp.CodeAction(
        f"Suppress {rule} here",
        kind=lsp.CodeActionKind.QuickFix,
        diagnostics=[found],
        edit=lsp.WorkspaceEdit({uri: [edit]}),
    )
