"""Any bytes: encodings, control characters, line ends, noise. A diagnosis, never a crash, and never a lost fault."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.robustness.kernels import BARRIER, PIPELINE, SETTINGS, findings, lint, loud, whole
from warplint.finding import Verdict

FAULT = [("cta-barrier-in-divergent-code", 3)]

SAME_FAULT = {
    "crlf": BARRIER.replace("\n", "\r\n").encode(),
    "byte order mark": b"\xef\xbb\xbf" + BARRIER.encode(),
    "latin-1": BARRIER.replace("float* out", "float* out /* \xe9\xe8\xfc */").encode("latin-1"),
    "utf-8": BARRIER.replace("float* out", "float* out /* 内核 🚀 */").encode(),
    "nul in a comment": BARRIER.replace("float* out", "float* out /* \0 */").encode(),
    "nul between tokens": BARRIER.replace("__syncthreads();", "\0__syncthreads();", 1).encode(),
    "nul at the end": BARRIER.encode() + b"\0" * 100,
    "form feed and vertical tab": BARRIER.replace("  if", "\f\v if").encode(),
    "no newline at the end": BARRIER.rstrip("\n").encode(),
    "tabs": BARRIER.replace("  ", "\t").encode(),
    "invalid utf-8": BARRIER.encode() + b"// \xff\xfe\xc0\x80\xed\xa0\x80\n",
    "control characters": BARRIER.replace("{\n", "{  // \x1b[2J\x07\x08\u202e\n", 1).encode(),
    "joined lines": BARRIER.replace("(threadIdx.x < 32)", "(threadIdx.x \\\n < 32)").replace("{\n", "{", 1).encode(),
    "a line of 100 kB": BARRIER.encode() + b"//" + b"x" * 100_000 + b"\n",
}


@pytest.mark.parametrize("data", SAME_FAULT.values(), ids=SAME_FAULT.keys())
def test_the_fault_is_found_in_any_spelling_of_the_text(data: bytes) -> None:
    assert loud(lint(data)) == FAULT


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_utf16_is_said(codec: str) -> None:
    report = lint("\ufeff".encode(codec) + BARRIER.encode(codec))
    assert not report.kernels
    assert "UTF-16" in report.reasons[0].text


def test_utf16_without_a_mark_is_not_taken_for_a_clean_file() -> None:
    report = lint(BARRIER.encode("utf-16-le"))
    assert report.reasons or any(kernel.verdict is Verdict.INCOMPLETE for kernel in report.kernels)


@pytest.mark.parametrize("data", [b"", b"\n", b"\0", b"\xef\xbb\xbf", b"// nothing\n", b"\r", b"   "])
def test_nothing_gives_no_kernel_and_no_finding(data: bytes) -> None:
    report = lint(data)
    assert not findings(report)
    assert all(kernel.verdict is not Verdict.FINDINGS for kernel in report.kernels)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.binary(max_size=400))
def test_random_bytes(data: bytes) -> None:
    assert not loud(lint(data))


TOKENS = [
    "{", "}", "(", ")", ";", '"', "'", "/*", "*/", "//", "\\\n", "#if 0\n", "#else\n", "#endif\n", "return;",
    "__syncthreads();", "if (threadIdx.x)", "else", "for (;;)", "while (1);", "break;", "goto x;", "x:", "template <",
    "asm volatile(", ":", "<<<", "\0", "\xff", "0x", "-", "= 0", "STAGES", "struct", "namespace {", "__global__ void",
]  # fmt: skip


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, len(PIPELINE)), st.sampled_from(TOKENS)), min_size=1, max_size=4))
def test_tokens_put_anywhere(edits: list[tuple[int, str]]) -> None:
    """What is found may change, since the text does; that every report holds together may not."""
    text = PIPELINE
    for place, token in edits:
        text = text[:place] + token + text[place:]
    lint(text.encode("utf-8", "replace"))


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.integers(0, len(PIPELINE)), st.integers(1, 400), st.integers(0, len(PIPELINE)))
def test_a_block_of_text_moved(start: int, length: int, target: int) -> None:
    block, rest = PIPELINE[start : start + length], PIPELINE[:start] + PIPELINE[start + length :]
    lint(rest[:target] + block + rest[target:])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.binary(max_size=300).filter(lambda data: b"*/" not in data))
def test_noise_in_a_comment_changes_nothing(noise: bytes) -> None:
    at = PIPELINE.index("extern")
    # A line splice or a NUL inside a comment is still a comment.
    report = lint(PIPELINE[:at].encode() + b"/*" + noise + b" */ " + PIPELINE[at:].encode())
    assert [(k.name, k.verdict) for k in report.kernels] == [(k.name, k.verdict) for k in whole().kernels]
    assert not loud(report)


def test_settings_are_those_of_a_user() -> None:
    assert SETTINGS.execute  # the executing half is part of what must be robust
