"""Masking: blank out, at equal length, what the CUDA grammar cannot read, after noting what it said.

The grammar loses whole loops over an unknown macro in front of `for`, and a kernel's signature over
`__cluster_dims__`. So before parsing, such text becomes spaces (line ends stay), every offset survives, and a `Mark`
keeps what stood there. Comments and directives are blanked too, and of each `#if` only one branch stays
(`preprocessor`). Nothing inside a string, a character literal, a comment or a directive is ever taken for code.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from warplint.source import Span
from warplint.syntax.ast import Macro, ParseGap
from warplint.syntax.preprocessor import Preprocessor


@dataclass(frozen=True, slots=True)
class Mark:
    """Text that was blanked: what it was, where, and the part that matters (arguments, or the words themselves)."""

    kind: str
    """Of: launch_bounds cluster_dims block_size maxnreg align attribute specifiers string."""
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Masked:
    """A masked file. `text` has the length of the original and the same line ends."""

    text: bytes
    code: bytes
    """`text` with the insides of strings blanked as well: safe to search for words and brackets."""
    marks: tuple[Mark, ...]
    unrolls: dict[int, int]
    """Offset of the statement that follows an unroll pragma -> factor, as `ast.For.unroll` has it."""
    macros: tuple[Macro, ...]
    includes: tuple[str, ...]
    gaps: tuple[ParseGap, ...]


_BLANK = bytes(byte if byte in b"\r\n" else 32 for byte in range(256))
_SPACE = b" \t\r\n\f\v"
# One token that hides text: a string (raw ones too), a comment, a character literal, a directive. The first byte
# stands alone so that the engine can skip over everything else quickly; possessive and open-ended parts keep every
# input linear. An apostrophe between digits is a digit separator.
_HIDING = re.compile(
    rb"[\"'/#](?:"
    rb"(?<=\")(?:(?:(?<=[^A-Za-z0-9_]R\")|(?<=[uUL8]R\"))([^()\\\s]{0,16})\((?:.*?\)\1\"|.*)|(?:[^\"\\\n]|\\.)*+\"?)"
    rb"|(?<=/)(?:/(?:[^\\\n]|\\\r?\n|\\)*+|\*(?:.*?\*/|.*))"
    rb"|(?<=')(?<![0-9a-fA-F]')(?:[^'\\\n]|\\.){1,12}'"
    rb"|(?<=#)(?:[^\n\\/]|\\\r?\n|\\[^\n]?|/\*(?:.*?\*/|.*)|/)*+)",
    re.S,
)
_AFTER_STRING = re.compile(rb"(?:\s+[A-Za-z_]\w*+){1,8}+(?=\s*[:)\",])")
_NAME = re.compile(rb"[A-Za-z_]\w*")
_NO_STRING_MACRO = frozenset([b"and", b"or", b"not", b"xor", b"bitand", b"bitor", b"not_eq", b"L", b"u", b"U", b"u8", b"R"])
_CAPITALS = re.compile(rb"[A-Z_](?<![A-Za-z0-9_].)[A-Z0-9_]{2,}+(?=[\s(])")
_PARENS = re.compile(rb"[()]")
_PAREN_REACH = 1 << 16
_MAX_QUALIFIER_MACROS = 300
_QUALIFIER_WORDS = (
    "__device__ __host__ __global__ __forceinline__ __noinline__ __inline__ __inline inline static extern constexpr "
    "const volatile __restrict__ __restrict noexcept"
)
_QUALIFIERS = frozenset(_QUALIFIER_WORDS.split())
_TYPE_WORDS = (
    rb"void|bool|char|short|int|long|float|double|auto|unsigned|signed|half|size_t|u?int(?:8|16|32|64)_t|const|static"
    rb"|inline|constexpr|extern|template|typename|struct|class|union|friend|virtual|explicit|operator|decltype|using"
    rb"|__(?:device|host|global|forceinline|noinline|shared|launch_bounds)__"
)
_BEFORE_LOOP = re.compile(rb"\s*(?:for|while|do|if|switch)\b")
_BEFORE_TYPE = re.compile(rb"\s*(?:(?:" + _TYPE_WORDS + rb")\b|\[\[)")
_BEFORE_NAMED = re.compile(
    rb"\s+[A-Za-z_][\w:]*+(?:\s*<[^;{}()<>]{0,400}+(?:<[^;{}()<>]{0,400}+>[^;{}()<>]{0,400}+)?>)?[\s*&]++[A-Za-z_~][\w:]*\s*[(\[=;{,]"
)
_ON_NEXT_LINE = re.compile(rb"[ \t]*\r?\n(?:[ \t]*\r?\n)*+([ \t])[ \t]*+(?!(?:const|noexcept|override|final|requires)\b)[A-Za-z_}]")
_AFTER_IF = re.compile(rb"\bif\s*\Z")
_BEFORE_WORD = re.compile(rb"\s*(?:[A-Za-z_~]|\[)")
_KNOWN_QUALIFIER = re.compile(
    r"(?:^|_)(?:DEVICE|HOST|HOSTDEVICE|HOST_DEVICE|GLOBAL|INLINE|FORCEINLINE|FORCE_INLINE|NOINLINE|NO_INLINE|API"
    r"|HIDE_FROM_ABI|CONSTEXPR(?:_?\w*)?|NODISCARD|EXPORT|VISIBILITY\w*|DEVICE_INLINE|KERNEL_?QUALIFIER\w*)$"
)
_ALIGN_NAME = re.compile(r"(?:^|_)ALIGN(?:AS|ED)?(?:_?\w{0,8})?$")
_LAMBDA_QUALIFIER = re.compile(rb"\]\s*((?:__(?:device|host|forceinline|noinline)__\s*)+)(?=[({])")
_ANGLES = rb"<(?:[^(){};<>]|<[^(){};<>]{0,200}+>){0,200}+>"
_TYPENAME_VALUE = re.compile(
    rb"typename(?=\s+(?:::)?[A-Za-z_]\w*+(?:" + _ANGLES + rb")?+"
    rb"(?:\s*::\s*(?:template\s+)?\w++(?:" + _ANGLES + rb")?+){0,20}+\s*[{(])"
)
_BITS = re.compile(rb":(?!:)\s*\w+\s*[,;]")
_BITS_TYPE = re.compile(rb"[;{}]\s*([A-Za-z_][\w:]*(?:\s+(?:int|char|short|long))*)\s*\Z")
_CONSTEXPR_OPERATOR = re.compile(rb"constexpr(?=\s+operator\b)")
_SPECIALIZED_OPERATOR = re.compile(rb"operator\s*(?:\(\s*\)|[-+*/%=<>!&|^~\[\]]{1,3})\s*(<[^;{}()]{1,200}>)(?=\s*\()")
_DYNAMIC_SHARED = re.compile(rb"HIP_DYNAMIC_SHARED\(\s*([A-Za-z_][\w: ]{0,80}?)\s*,\s*(\w+)\s*\)")
_UNROLL = re.compile(r"\bunroll\b\s*\(?\s*(\w*)")
_WITH_ARGUMENTS = {
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
_WRITTEN_ATTRIBUTE = re.compile(r"__(launch_bounds|cluster_dims|block_size|maxnreg)__\s*\(")


def mask(data: bytes, hip: bool = False) -> Masked:
    """Mask one file. `hip` says that AMD's compiler is meant (it decides `#ifdef __HIP_PLATFORM_AMD__`)."""
    return _Masker(data, hip).run()


def closing(code: bytes | bytearray, opening: int) -> int:
    """Offset just past the parenthesis that closes the one at `opening`; -1 when it is not within reach."""
    depth = 0
    for match in _PARENS.finditer(code, opening, opening + _PAREN_REACH):
        depth += 1 if match[0] == b"(" else -1
        if depth == 0:
            return match.end()
    return -1


def blank(raw: bytes | bytearray) -> bytes:
    """The same number of bytes with everything but line ends turned into spaces."""
    return bytes(raw).translate(_BLANK)


class _Masker:
    def __init__(self, data: bytes, hip: bool) -> None:
        self.data = data
        self.text = bytearray(data)
        self.code = self.text
        self.marks: list[Mark] = []
        self.pragmas: list[tuple[int, int]] = []
        self.gaps: list[ParseGap] = []
        self.budget = 4 * len(data) + 16 * _PAREN_REACH
        self.pre = Preprocessor(hip=hip or b"hip/hip_runtime" in data)

    def run(self) -> Masked:
        text = self.text
        strings = self.hide()
        self.code = bytearray(text)
        for start, end in strings:
            self.code[start:end] = self.code[start:end].translate(_BLANK)
        for step in (self.arguments, self.own_macros, self.capitals, self.oddities):
            step()
        self.marks.sort(key=lambda mark: mark.start)
        unrolls = {}
        for end, factor in self.pragmas:
            unrolls[_skip_space(text, end)] = factor
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
        )

    def closing(self, opening: int) -> int:
        """`closing` within a budget for the whole file: hopelessly unbalanced text is not searched over and over."""
        if self.code[opening : opening + 1] != b"(" or self.budget < 0:
            return -1
        end = closing(self.code, opening)
        self.budget -= end - opening if end != -1 else _PAREN_REACH
        return end

    def erase(self, start: int, end: int) -> None:
        """Blank a range in both texts."""
        gone = self.text[start:end].translate(_BLANK)
        self.text[start:end] = gone
        self.code[start:end] = gone

    def mark(self, kind: str, start: int, end: int, text: bytes | bytearray | str) -> None:
        """Note a range and blank it."""
        written = text if isinstance(text, str) else text.decode("utf-8", "replace")
        self.marks.append(Mark(kind, start, end, written))
        self.erase(start, end)

    # ------------------------------------------------------------------------ comments, strings, directives
    def hide(self) -> list[tuple[int, int]]:
        """Blank comments, directives and branches not taken; returns the insides of strings and characters."""
        data, text, pre = self.data, self.text, self.pre
        strings: list[tuple[int, int]] = []
        line_start = re.compile(rb"[\r\n][ \t\f\v]*\Z|\A[ \t\f\v\xef\xbb\xbf]*\Z")
        if data.startswith(b"\xef\xbb\xbf"):
            text[:3] = b"   "
        for match in _HIDING.finditer(data):
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
                word = pre.directive(data, start, end)
                if word == "pragma" and not pre.skipping:
                    self.pragma(data[start:end].decode("utf-8", "replace"), end)
                text[start:end] = blank(data[start:end])
        unclosed = pre.finish(len(data))
        if unclosed:
            self.gaps.append(ParseGap(Span(max(0, len(data) - 1), len(data)), f"{unclosed} #if without #endif"))
        for start, end, known in pre.skipped:
            if not known and data.find(b"__global__", start, end) != -1:
                self.gaps.append(ParseGap(Span(start, end), "kernel in a preprocessor branch that was not read"))
            text[start:end] = blank(data[start:end])
        if pre.skipped:
            # Outside of all branches as many have begun as have ended.
            starts = sorted(start for start, _, _ in pre.skipped)
            ends = sorted(end for _, end, _ in pre.skipped)
            self.marks = [m for m in self.marks if bisect_right(starts, m.start) == bisect_right(ends, m.start)]
        return strings

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

    # ---------------------------------------------------------------------------------- what gets blanked
    def arguments(self) -> None:
        """Attributes written with parentheses: their arguments are kept as marks."""
        code = self.code
        for word, kind in _WITH_ARGUMENTS.items():
            at = code.find(word)
            while at != -1:
                opening = _skip_space(code, at + len(word))
                if not _is_word(code, at, at + len(word)):
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
                if _is_word(self.code, at, end):
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
            after = _skip_space(code, end)
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
                elif _opens_statement(code, start):
                    self.end_statement(after)
                continue
            if code[after : after + 1] == b"{" and _before(code, start) == 41:  # between a lambda's `)` and `{`
                self.mark("specifiers", start, end, _meaning(name))
                continue
            if _BEFORE_LOOP.match(code, end):
                if _opens_statement(code, start):
                    self.loop_macro(name, "", start, end)
            elif _KNOWN_QUALIFIER.search(name):
                if _BEFORE_WORD.match(code, end) and _may_qualify(code, start):
                    self.mark("specifiers", start, end, _meaning(name))
            elif _opens_statement(code, start) and (
                _BEFORE_TYPE.match(code, end) or _BEFORE_NAMED.match(code, end)
            ):
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

    def oddities(self) -> None:
        """Grammar gaps of single constructs; each is looked for only where its word occurs at all."""
        code = self.code
        if b"typename" in code:
            self.each(_TYPENAME_VALUE, 0)
        if b"] __" in code or b"]__" in code:
            self.each(_LAMBDA_QUALIFIER, 1)
        if b"operator" in code:
            self.each(_CONSTEXPR_OPERATOR, 0)
            self.each(_SPECIALIZED_OPERATOR, 1)
        if b"struct" in code or b"union" in code:
            self.unnamed_bits()
        if b"HIP_DYNAMIC_SHARED" in code:
            self.dynamic_shared()
        at = code.find(b"__builtin_bit_cast")
        while at != -1:
            self.bit_cast(at)
            at = code.find(b"__builtin_bit_cast", at + 18)

    def each(self, pattern: re.Pattern[bytes], group: int) -> None:
        """Blank one group of every match."""
        for match in pattern.finditer(bytes(self.code)):
            self.erase(*match.span(group))

    def unnamed_bits(self) -> None:
        """Bit-fields without a name: `int a : 3, : 5;`, `int : 3, b : 5;` and `int : 3;` lose the nameless ones."""
        code = self.code
        for match in _BITS.finditer(bytes(code)):
            start, end = match.span()
            if _before(code, start) == 44:
                self.erase(code.rfind(b",", 0, start), end - 1)
                continue
            low = max(0, start - 400)
            kind = _BITS_TYPE.search(code[low:start])
            if kind and kind[1].split()[0] not in (b"case", b"default", b"public", b"private", b"protected"):
                last = code[end - 1 : end] == b";"
                self.erase(low + kind.start(1) if last else start, end - 1 if last else end)

    def dynamic_shared(self) -> None:
        """`HIP_DYNAMIC_SHARED(T, x)` becomes `extern __shared__ T x[];`, which is what it expands to, as it fits."""
        for match in _DYNAMIC_SHARED.finditer(bytes(self.code)):
            start, end = match.span()
            closed = self.code[(after := _skip_space(self.code, end)) : after + 1] == b";"
            head, tail = b"extern __shared__ " + match[1], b" " + match[2] + (b"[]" if closed else b"[];")
            room = end - start - len(head) - len(tail)
            if room >= 0 and b"\n" not in match[0]:
                made = head + b" " * room + tail
                self.text[start:end] = made
                self.code[start:end] = made

    def bit_cast(self, at: int) -> None:
        """`__builtin_bit_cast(T, x)` becomes `(T)(x)`, or `((T) x)` when nothing follows the comma."""
        opening = _skip_space(self.code, at + 18)
        end = self.closing(opening)
        if end == -1:
            return
        depth, comma = 0, -1
        for index in range(opening + 1, min(end, opening + 4096)):
            byte = self.code[index]
            depth += (byte in b"(<[{") - (byte in b")>]}")
            if byte == 44 and depth == 0:
                comma = index
                break
        if comma == -1:
            return
        self.erase(at, at + 18)
        for target in (self.text, self.code):
            if target[comma + 1 : comma + 2] in (b" ", b"\t"):
                target[comma : comma + 2] = b")("
            else:
                target[at] = 40
                target[comma] = 41


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


def _skip_space(code: bytes | bytearray, at: int) -> int:
    """Offset of the first byte from `at` on that is not white space."""
    match = _NOT_SPACE(code, at)
    return match.start() if match else len(code)


_NOT_SPACE: Callable[..., re.Match[bytes] | None] = re.compile(rb"[^ \t\r\n\f\v]").search


def _is_word(code: bytes | bytearray, start: int, end: int) -> bool:
    """Whether `[start, end)` is a whole identifier."""
    before, after = code[max(0, start - 1) : start], code[end : end + 1]
    return not (before.isalnum() or before == b"_" or after.isalnum() or after == b"_")


def _before(code: bytes | bytearray, at: int) -> int:
    """The last byte before `at` that is not white space, 0 at the beginning of the file."""
    reach = 64
    while at > 0:
        low = max(0, at - reach)
        kept = code[low:at].rstrip(_SPACE)
        if kept:
            return kept[-1]
        at, reach = low, reach * 4
    return 0


def _opens_statement(code: bytes | bytearray, at: int) -> bool:
    """Whether a statement or declaration can begin at `at`."""
    return _before(code, at) in b"\0;{}>):"


def _may_qualify(code: bytes | bytearray, at: int) -> bool:
    """Whether a qualifier can stand at `at`: where a statement begins, or after another word."""
    byte = _before(code, at)
    return byte in b"\0;{}>):]\"" or byte == 95 or chr(byte).isalnum()


def attribute_arguments(marks: list[Mark], kind: str) -> str | None:
    """The arguments of the last mark of `kind`, looked for in macro bodies too; None when there is none."""
    for mark in reversed(marks):
        if mark.kind == kind:
            return mark.text
        if mark.kind == "specifiers":
            for match in _WRITTEN_ATTRIBUTE.finditer(mark.text):
                raw = mark.text.encode("utf-8", "replace")
                end = closing(raw, match.end() - 1)
                if match[1] == kind and end != -1:
                    return raw[match.end() : end - 1].decode("utf-8", "replace")
    return None
