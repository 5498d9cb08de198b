"""First half of masking: comments, strings, directives and branches not taken."""

from __future__ import annotations

import re
from bisect import bisect_right

from msgspec.structs import replace

from warplint.patterns import late
from warplint.source import SourceFile, Span
from warplint.syntax.ast import ParseGap
from warplint.syntax.marks import BLANK, PAREN_REACH, Mark, blank, closing
from warplint.syntax.preprocessor import Preprocessor, Target

# One token that hides text: a string (raw ones too), a comment, a character literal, a directive. The first byte
# stands alone so that the engine can skip over everything else quickly; possessive and open-ended parts keep every
# input linear. An apostrophe between digits is a digit separator.
_HIDING = late(
    rb"[\"'/#](?:"
    rb"(?<=\")(?:(?:(?<=[^A-Za-z0-9_]R\")|(?<=[uUL8]R\"))([^()\\\s]{0,16})\((?:.*?\)\1\"|.*)|(?:[^\"\\\n]|\\.)*+\"?)"
    rb"|(?<=/)(?:/(?:[^\\\n]|\\\r?\n|\\)*+|\*(?:.*?\*/|.*))"
    rb"|(?<=')(?<![0-9a-fA-F]')(?:[^'\\\n]|\\.){1,12}'"
    rb"|(?<=#)(?:[^\n\\/]|\\\r?\n|\\[^\n]?|/\*(?:.*?\*/|.*)|/)*+)",
    re.S,
)
_AFTER_STRING = late(rb"(?:\s+[A-Za-z_]\w*+){1,8}+(?=\s*[:)\",])")
_NAME = late(rb"[A-Za-z_]\w*")
_OTHER_WORDS = b"and or not xor bitand bitor not_eq L u U u8 R"
_NO_STRING_MACRO = frozenset(_OTHER_WORDS.split())
"""What may follow a string and is no macro: operators in words, prefixes of the next string."""
_BRACE = late(rb"[{}]")
_SPACE_OPENED = late(rb"(?:\bnamespace\b[^;{}()]*|\bextern\s*\"[^\"]*\"\s*)\Z")
_UNROLL = late(r"\bunroll\b\s*\(?\s*(\w*)")


class Hiding:
    """The text being masked: what was blanked so far, marks, pragmas and gaps."""

    def __init__(self, data: bytes, target: Target, source: SourceFile | None = None) -> None:
        self.data = data
        self.text = bytearray(data)
        self.code = self.text
        self.marks: list[Mark] = []
        self.pragmas: list[tuple[int, int]] = []
        self.gaps: list[ParseGap] = []
        self.budget = 4 * len(data) + 16 * PAREN_REACH
        self.source = source if source is not None and source.parts else None
        self.read: set[int] = set()
        """Headers (numbers of parts) whose text was come to."""
        if not target.amd and data.find(b"hip/hip_runtime", 0, self.source.own if self.source else len(data)) != -1:
            target = replace(target, amd=True)
        self.pre = Preprocessor(target)

    def closing(self, opening: int) -> int:
        """`closing` within a budget for the whole file: hopelessly unbalanced text is not searched over and over."""
        if self.code[opening : opening + 1] != b"(" or self.budget < 0:
            return -1
        end = closing(self.code, opening)
        self.budget -= end - opening if end != -1 else PAREN_REACH
        return end

    def erase(self, start: int, end: int) -> None:
        """Blank a range in both texts."""
        gone = self.text[start:end].translate(BLANK)
        self.text[start:end] = gone
        self.code[start:end] = gone

    def mark(self, kind: str, start: int, end: int, text: bytes | bytearray | str) -> None:
        """Note a range and blank it."""
        written = text if isinstance(text, str) else text.decode("utf-8", "replace")
        self.marks.append(Mark(kind, start, end, written))
        self.erase(start, end)

    def hide(self) -> list[tuple[int, int]]:
        """Blank comments, directives and branches not taken; returns the insides of strings and characters."""
        data, text, pre = self.data, self.text, self.pre
        strings: list[tuple[int, int]] = []
        if data.startswith(b"\xef\xbb\xbf"):
            text[:3] = b"   "
        self._hide(strings, 0, self.source.own if self.source else len(data), -1)
        unclosed = pre.finish(len(data))
        if unclosed:
            end = self.source.own if self.source else len(data)
            self.gaps.append(ParseGap(Span(max(0, end - 1), end), f"{unclosed} #if without #endif"))
        for start, end, known in pre.skipped:
            if not known and data.find(b"__global__", start, end) != -1:
                self.gaps.append(ParseGap(Span(start, end), "kernel in a preprocessor branch that was not read"))
            text[start:end] = blank(data[start:end])
        if pre.skipped:
            # Outside of all branches as many have begun as have ended.
            starts = sorted(start for start, _, _ in pre.skipped)
            ends = sorted(end for _, end, _ in pre.skipped)
            self.marks = [m for m in self.marks if bisect_right(starts, m.start) == bisect_right(ends, m.start)]
        for number, part in enumerate(self.source.parts if self.source else ()):
            if number not in self.read:
                text[part.start : part.end] = blank(data[part.start : part.end])
        strings.sort()
        return strings

    def _hide(self, strings: list[tuple[int, int]], begin: int, stop: int, number: int) -> None:
        """One text, the file's own (`number` -1) or a header's, and where it includes one, that header's text."""
        data, text, pre = self.data, self.text, self.pre
        line_start = re.compile(rb"[\r\n][ \t\f\v]*\Z|\A[ \t\f\v\xef\xbb\xbf]*\Z")
        for match in _HIDING.finditer(data, begin, stop):
            start, end = match.span()
            first = data[start]
            if first == 34:
                strings.append((start + 1, end - 1))
                after = _AFTER_STRING.match(data, end)
                if after:
                    names = list(_NAME.finditer(after[0]))
                    if not any(name[0] in _NO_STRING_MACRO for name in names):
                        for name in names:
                            self.mark("string", end + name.start(), end + name.end(), name[0])
            elif first == 47:
                text[start:end] = blank(data[start:end])
            elif first == 39:
                strings.append((start + 1, end - 1))
            else:
                line = data[max(0, start - 200) : start]
                if not line_start.search(b"\n" + line if start <= 200 else line):
                    continue
                if end - start > 1 and data[end - 1] == 13:
                    end -= 1
                included = len(pre.includes)
                word = pre.directive(data, start, end)
                if word == "pragma" and not pre.skipping:
                    self.pragma(data[start:end].decode("utf-8", "replace"), end)
                text[start:end] = blank(data[start:end])
                if self.source is not None and len(pre.includes) > included:
                    self._include(strings, pre.includes[-1], begin, start, number)

    def _include(self, strings: list[tuple[int, int]], name: str, begin: int, at: int, number: int) -> None:
        """An `#include` at `at`: the header's text is gone through once, where it is first included."""
        source = self.source
        meant = source.included.get((number, name), -1) if source is not None else -1
        if source is None or meant < 0 or meant in self.read:
            return
        if self._inside_function(begin, at):
            line = f'`#include "{name}"` inside a function is not read'
            self.gaps.append(ParseGap(Span(at, at + 1), line))
            return
        self.read.add(meant)
        part = source.parts[meant]
        depth = len(self.pre.stack)
        self._hide(strings, part.start, part.end, meant)
        while len(self.pre.stack) > depth:
            self.pre.close(part.end)

    def _inside_function(self, begin: int, at: int) -> bool:
        """A brace is open before `at` that is none of a namespace or linkage."""
        opened: list[int] = []
        for match in _BRACE.finditer(self.text, begin, at):
            if match[0] == b"{":
                opened.append(match.start())
            elif opened:
                opened.pop()
        return any(not _SPACE_OPENED.search(self.text, max(begin, brace - 200), brace) for brace in opened)

    def pragma(self, text: str, end: int) -> None:
        """Note an unroll pragma that ends at `end`."""
        if "nounroll" in text:
            self.pragmas.append((end, 1))
            return
        match = _UNROLL.search(text)
        if match:
            self.pragmas.append((end, self.factor(match[1])))

    def factor(self, written: str, depth: int = 0) -> int:
        """The number behind `#pragma unroll`; -1 for none, or one that the file does not tell."""
        if written.isdecimal() and len(written) < 8:
            return max(1, int(written))
        macro = self.pre.table.get(written)
        if macro is not None and macro.params is None and depth < 8:
            return self.factor(macro.body.strip("() "), depth + 1)
        return -1
