"""Masking: blank out, at equal length, what the CUDA grammar cannot read, after noting what it said.

The grammar loses whole loops over an unknown macro in front of `for`, and a kernel's signature over
`__cluster_dims__`. So before parsing, such text becomes spaces (line ends stay), every offset survives, and a `Mark`
keeps what stood there. Comments and directives are blanked too, and of each `#if` only one branch stays
(`preprocessor`). Nothing inside a string, a character literal, a comment or a directive is ever taken for code.
"""

from __future__ import annotations

import re

from warplint.patterns import late
from warplint.source import SourceFile, Span
from warplint.syntax.ast import ParseGap
from warplint.syntax.marks import BLANK, Masked, before, is_word, may_qualify, opens_statement, skip_space
from warplint.syntax.oddities import Oddities
from warplint.syntax.preprocessor import Target

DEVICE = Target()

_CAPITALS = late(rb"[A-Z_](?<![A-Za-z0-9_].)[A-Z0-9_]{2,}+(?=[\s(])")
_MAX_QUALIFIER_MACROS = 300
_QUALIFIER_WORDS = (
    "__device__ __host__ __global__ __forceinline__ __noinline__ __inline__ __inline inline static extern constexpr "
    "const volatile __restrict__ __restrict noexcept"
)
_QUALIFIERS = frozenset(_QUALIFIER_WORDS.split())
_TYPE_WORDS = (
    rb"void|bool|char|short|int|long|float|double|auto|unsigned|signed|u?int(?:8|16|32|64)_t|static"
    rb"|inline|constexpr|extern|template|typename|struct|class|union|friend|virtual|explicit|decltype|using"
    rb"|__(?:device|host|global|forceinline|noinline|shared|launch_bounds)__"
)
_BEFORE_LOOP = late(rb"\s*(?:for|while|do|if|switch)\b")
_BEFORE_TYPE = late(
    rb"\s*(?:(?:" + _TYPE_WORDS + rb")\b|\[\["
    rb"|(?:const|volatile)\s+[A-Za-z_][\w:]*+(?:\s*<[^;{}()]{0,400}>)?[\s*&]++[A-Za-z_])"
)
_BEFORE_NAMED = late(
    rb"\s+(?!(?:const|volatile|operator)\b)[A-Za-z_][\w:]*+(?:\s*<[^;{}()<>]{0,400}+(?:<[^;{}()<>]{0,400}+>[^;{}()<>]{0,400}+)?>)?[\s*&]++"
    rb"[A-Za-z_~][\w:]*\s*[(\[=;{,]"
)
_ON_NEXT_LINE = late(
    rb"[ \t]*\r?\n(?:[ \t]*\r?\n)*+([ \t])[ \t]*+(?!(?:const|noexcept|override|final|requires)\b)[A-Za-z_}]"
)
_AFTER_IF = late(rb"\bif\s*\Z")
_BEFORE_WORD = late(rb"\s*(?!(?:and|or|not|xor|bitand|bitor|not_eq)\b)(?:[A-Za-z_~]|\[)")
_KNOWN_QUALIFIER = late(
    r"(?:^|_)(?:DEVICE|HOST|HOSTDEVICE|HOST_DEVICE|GLOBAL|INLINE|FORCEINLINE|FORCE_INLINE|NOINLINE|NO_INLINE|API"
    r"|HIDE_FROM_ABI|CONSTEXPR(?:_?\w*)?|NODISCARD|EXPORT|VISIBILITY\w*|DEVICE_INLINE|KERNEL_?QUALIFIER\w*)$"
)
_ALIGN_NAME = late(r"(?:^|_)ALIGN(?:AS|ED)?(?:_?\w{0,8})?$")
WITH_ARGUMENTS = {
    b"__launch_bounds__": "launch_bounds",
    b"__cluster_dims__": "cluster_dims",
    b"__block_size__": "block_size",
    b"__maxnreg__": "maxnreg",
    b"__align__": "align",
    b"__attribute__": "attribute",
    b"__attribute": "attribute",
    b"__declspec": "attribute",
    b"_Pragma": "pragma",
}


def mask(data: bytes, target: Target = DEVICE, source: SourceFile | None = None) -> Masked:
    """Mask one file as it is read for a target: its conditions decide what stays.

    `source` holds the headers behind the file's own bytes, if there are any.
    """
    return _Masker(data, target, source).run()


class _Masker(Oddities):
    """Masks one file."""

    def run(self) -> Masked:
        text = self.text
        strings = self.hide()
        self.code = bytearray(text)
        for start, end in strings:
            self.code[start:end] = self.code[start:end].translate(BLANK)
        for step in (self.arguments, self.own_macros, self.capitals, self.oddities):
            step()
        self.marks.sort(key=lambda mark: mark.start)
        unrolls = {}
        for end, factor in self.pragmas:
            unrolls[skip_space(text, end)] = factor
        if b"\0" in self.data:  # the grammar stops at a NUL
            text = bytearray(bytes(text).replace(b"\0", b" "))
        return Masked(
            bytes(text),
            bytes(self.code),
            tuple(self.marks),
            unrolls,
            tuple(self.pre.macros),
            tuple(self.pre.includes),
            tuple(self.gaps),
            self.pre.passes,
        )

    def arguments(self) -> None:
        """Attributes written with parentheses: their arguments are kept as marks."""
        code = self.code
        for word, kind in WITH_ARGUMENTS.items():
            at = code.find(word)
            while at != -1:
                opening = skip_space(code, at + len(word))
                if not is_word(code, at, at + len(word)):
                    at = code.find(word, at + 1)
                    continue
                end = self.closing(opening)
                if end == -1:
                    self.erase(at, at + len(word))
                    self.gaps.append(ParseGap(Span(at, at + len(word)), f"{word.decode()} without its arguments"))
                elif kind == "pragma":
                    self.erase(at, end)
                    self.pragma(self.data[opening:end].decode("utf-8", "replace"), end)
                else:
                    self.mark(kind, at, end, self.data[opening + 1 : end - 1])
                at = code.find(word, at + len(word))

    def own_macros(self) -> None:
        """Object-like macros of the file that stand for qualifiers, attributes or loop pragmas."""
        found = 0
        for name, macro in self.pre.table.items():
            if macro is None or macro.params is not None or not 1 < len(name) < 80:
                continue
            kind = _macro_kind(macro.body)
            if not kind:
                continue
            found += 1
            if found > _MAX_QUALIFIER_MACROS:
                self.gaps.append(ParseGap(macro.span, f"more than {_MAX_QUALIFIER_MACROS} qualifier macros"))
                break
            word = name.encode("utf-8", "replace")
            at = self.code.find(word)
            while at != -1:
                end = at + len(word)
                if is_word(self.code, at, end):
                    if kind == "pragma":
                        self.erase(at, end)
                        self.pragma(macro.body, end)
                    else:
                        self.mark("specifiers", at, end, macro.body)
                at = self.code.find(word, end)

    def capitals(self) -> None:
        """Unknown all-capital macros where they stand for qualifiers, alignment or loop pragmas."""
        code = self.code
        for match in _CAPITALS.finditer(bytes(code)):
            start, end = match.span()
            name = match[0].decode()
            if name.startswith("__") and name.endswith("__"):
                continue
            after = skip_space(code, end)
            if code[after : after + 1] == b"(":
                if _ALIGN_NAME.search(name):
                    close = self.closing(after)
                    if close != -1 and _BEFORE_WORD.match(code, close):
                        self.mark("align", start, close, self.data[after + 1 : close - 1])
                elif "UNROLL" in name or "PRAGMA" in name:
                    close = self.closing(after)
                    if close != -1 and _BEFORE_LOOP.match(code, close):
                        self.loop_macro(name, self.data[after + 1 : close - 1].decode("utf-8", "replace"), start, close)
                elif "LAUNCH_BOUNDS" in name:
                    close = self.closing(after)
                    if close != -1 and _BEFORE_WORD.match(code, close):
                        self.mark("launch_bounds", start, close, self.data[after + 1 : close - 1])
                elif "CONSTEXPR" in name and _AFTER_IF.search(code, max(0, start - 80), start):
                    self.erase(start, end)
                    self.text[start : start + 9] = self.code[start : start + 9] = b"constexpr"
                elif opens_statement(code, start):
                    self.end_statement(after)
                continue
            if code[after : after + 1] == b"{" and before(code, start) == 41:  # between a lambda's `)` and `{`
                self.mark("specifiers", start, end, _meaning(name))
                continue
            if _BEFORE_LOOP.match(code, end):
                if opens_statement(code, start):
                    self.loop_macro(name, "", start, end)
            elif _KNOWN_QUALIFIER.search(name):
                if _BEFORE_WORD.match(code, end) and may_qualify(code, start):
                    self.mark("specifiers", start, end, _meaning(name))
            elif opens_statement(code, start) and (_BEFORE_TYPE.match(code, end) or _BEFORE_NAMED.match(code, end)):
                self.mark("specifiers", start, end, _meaning(name))

    def end_statement(self, opening: int) -> None:
        """`MACRO(x)` alone on its line: a blank behind it becomes the `;` that the macro brings along."""
        close = self.closing(opening)
        follows = _ON_NEXT_LINE.match(self.code, close) if close != -1 else None
        if follows:
            self.text[follows.start(1)] = self.code[follows.start(1)] = 59

    def loop_macro(self, name: str, argument: str, start: int, end: int) -> None:
        """A macro in front of a loop: `CUTE_UNROLL`, `CUTLASS_PRAGMA_NO_UNROLL`, `UNROLL(4)`."""
        if "UNROLL" in name:
            no = "NO_UNROLL" in name or "NOUNROLL" in name
            self.pragmas.append((end, 1 if no else self.factor(argument.strip())))
        self.erase(start, end)


def _macro_kind(body: str) -> str:
    """`specifiers` or `pragma` when a macro's body is nothing else, "" for any other macro."""
    if not 0 < len(body) < 400:
        return ""
    if body.startswith(("_Pragma", "__pragma")):
        return "pragma"
    if not body.startswith(("_", "inline", "static", "constexpr", "extern", "const", "noexcept")):
        return ""
    rest = re.sub(r"(?:__\w+__|__attribute__|__declspec|alignas)\s*\((?:[^()]|\([^()]*\))*\)", " ", body)
    return "specifiers" if all(word in _QUALIFIERS for word in rest.split()) else ""


def _meaning(name: str) -> str:
    """The specifiers that an unknown qualifier macro stands for, judged by its name."""
    words = []
    if "HOST" in name:
        words.append("__host__")
    if "DEVICE" in name:
        words.append("__device__")
    if name.endswith("GLOBAL"):
        words.append("__global__")
    return " ".join(words)
