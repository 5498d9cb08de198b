"""The language server, asked by a real client over its standard input and output."""

import asyncio
import sys

import pytest

from tests.gate.kernels import BAD, GOOD, RULE

pytest.importorskip("pygls")
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient


class Client(LanguageClient):
    def __init__(self):
        super().__init__("test", "1")
        self.published = asyncio.Queue()

        @self.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: lsp.PublishDiagnosticsParams):
            self.published.put_nowait(params)

    async def diagnostics(self, version=None):
        """What the server publishes next (for this version of the document)."""
        while True:
            params = await asyncio.wait_for(self.published.get(), 60)
            if version is None or params.version == version:
                return params.diagnostics


def talk(conversation, tmp_path):
    async def go():
        client = Client()
        await client.start_io(sys.executable, "-m", "warplint", "lsp", cwd=str(tmp_path))
        try:
            started = await client.initialize_async(
                lsp.InitializeParams(capabilities=lsp.ClientCapabilities(), root_uri=tmp_path.as_uri())
            )
            client.initialized(lsp.InitializedParams())
            await conversation(client, started)
        finally:
            await client.shutdown_async(None)
            client.exit(None)
            await client.stop()

    asyncio.run(asyncio.wait_for(go(), 120))


def opened(client, path, text):
    uri = path.as_uri()
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "cuda-cpp", 1, text)))
    return uri


def changed(client, uri, version, text):
    client.text_document_did_change(
        lsp.DidChangeTextDocumentParams(
            lsp.VersionedTextDocumentIdentifier(version, uri), [lsp.TextDocumentContentChangeWholeDocument(text)]
        )
    )


def test_a_session(tmp_path):
    async def conversation(client, started):
        assert started.capabilities.hover_provider and started.capabilities.code_action_provider
        uri = opened(client, tmp_path / "k.cu", BAD)
        (one,) = await client.diagnostics(1)
        assert (one.code, one.source, one.severity) == (RULE, "warplint", lsp.DiagnosticSeverity.Error)
        assert one.range == lsp.Range(lsp.Position(2, 4), lsp.Position(2, 19))
        assert any("threadIdx.x < 32" in info.message for info in one.related_information)
        assert all(info.location.uri == uri for info in one.related_information)

        # who executes the barrier
        document = lsp.TextDocumentIdentifier(uri)
        hover = await client.text_document_hover_async(lsp.HoverParams(document, lsp.Position(2, 6)))
        assert "32 of 256 threads: warp 0" in hover.contents.value and "`threadIdx.x < 32`" in hover.contents.value
        assert await client.text_document_hover_async(lsp.HoverParams(document, lsp.Position(6, 0))) is None

        # the quick fix, applied, silences it
        (action,) = await client.text_document_code_action_async(
            lsp.CodeActionParams(document, one.range, lsp.CodeActionContext([one]))
        )
        (edit,) = action.edit.changes[uri]
        assert edit.new_text == f"    // warplint: ignore[{RULE}] reason\n"
        lines = BAD.split("\n")
        lines.insert(edit.range.start.line, edit.new_text.rstrip("\n"))
        changed(client, uri, 2, "\n".join(lines))
        assert not await client.diagnostics(2)

        # a text that changes while it is analysed: the last one counts
        for version in range(3, 9):
            changed(client, uri, version, BAD if version % 2 == 0 else GOOD)
        assert [found.code for found in await client.diagnostics(8)] == [RULE]
        client.text_document_did_close(lsp.DidCloseTextDocumentParams(document))
        assert not await client.diagnostics()

    talk(conversation, tmp_path)


def test_settings_columns_and_incomplete_kernels(tmp_path):
    (tmp_path / "warplint.toml").write_text(f'levels = {{{RULE} = "warning"}}\n')

    async def conversation(client, started):
        text = BAD.replace("    __s", '    asm("/*😀*/"); __s')
        opened(client, tmp_path / "ü k.cu", text)
        (one,) = [found for found in await client.diagnostics(1) if found.code == RULE]
        assert one.severity == lsp.DiagnosticSeverity.Warning
        assert one.range.start == lsp.Position(2, len('    asm("/*😀*/"); ') + 1), "UTF-16 units"
        (tmp_path / "warplint.toml").write_text("levle = 1\n")
        uri = opened(client, tmp_path / "other.cu", "// nothing\n")
        (problem,) = await client.diagnostics(1)
        assert "unknown key `levle`" in problem.message
        (tmp_path / "warplint.toml").write_text("")
        open_ended = GOOD.replace("__launch_bounds__(256) ", "").replace("threadIdx.x < 32", "threadIdx.x < 33")
        changed(client, uri, 2, open_ended.replace("out[0] = 1.0f", "__syncthreads()"))
        said = [found.message for found in await client.diagnostics(2)]
        assert any(text.startswith("not judged completely: block size unknown") for text in said)

    talk(conversation, tmp_path)
