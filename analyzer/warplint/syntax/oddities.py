"""Masking of single constructs that the grammar lacks; each is looked for only where its word occurs at all."""

from __future__ import annotations

import re

from warplint.patterns import late
from warplint.syntax.hiding import Hiding
from warplint.syntax.marks import before, skip_space

_LAMBDA_QUALIFIER = late(rb"\]\s*((?:__(?:device|host|forceinline|noinline)__\s*)+)(?=[({])")
_ANGLES = rb"<(?:[^(){};<>]|<[^(){};<>]{0,200}+>){0,200}+>"
_TYPENAME_VALUE = late(
    rb"typename(?=\s+(?:::)?[A-Za-z_]\w*+(?:" + _ANGLES + rb")?+"
    rb"(?:\s*::\s*(?:template\s+)?\w++(?:" + _ANGLES + rb")?+){0,20}+\s*[{(])"
)
_BITS = late(rb":(?!:)\s*\w+\s*[,;]")
_BITS_TYPE = late(rb"[;{}]\s*([A-Za-z_][\w:]*(?:\s+(?:int|char|short|long))*)\s*\Z")
_CONSTEXPR_OPERATOR = late(rb"constexpr(?=\s+operator\b)")
_SPECIALIZED_OPERATOR = late(rb"operator\s*(?:\(\s*\)|[-+*/%=<>!&|^~\[\]]{1,3})\s*(<[^;{}()]{1,200}>)(?=\s*\()")
_RESTRICT_MACRO = late(
    rb"[*&]\s*(?:const\s+)?([A-Za-z_]\w*(?:RESTRICT|restrict)\w*)(?=\s+[A-Za-z_]\w*\s*(?:[,;)=\[{]|\Z))"
)
"""A macro for `__restrict__` that a header defines: `float * PROJECT_RESTRICT dst`."""
_TEMPLATE_MEMBER = late(rb"(?:\.|->|::)\s*(template\b)(?=\s+(?:operator\b|[A-Za-z_]))")
"""`x.template get<4>()`: needed by a compiler where `x` has a dependent type, and by nobody else."""
_NUMBERED = late(rb"<\s*\d+\s*>\s+\w+\s*(?:=[^=]|[({;])")
_NUMBERED_TYPE = late(rb"[;{}]\s*(?:const\s+)?((?:\w+::)+)(?=\w+<\s*\d+\s*>\s+\w+\s*(?:=[^=]|[({;]))")
"""`cg::thread_block_tile<32> warp = ...;`, which the grammar reads as two comparisons and an assignment."""
_DYNAMIC_SHARED = late(rb"HIP_DYNAMIC_SHARED\(\s*([A-Za-z_][\w: ]{0,80}?)\s*,\s*(\w+)\s*\)")


class Oddities(Hiding):
    """The constructs, one method each."""

    def oddities(self) -> None:
        """Grammar gaps of single constructs; each is looked for only where its word occurs at all."""
        code = self.code
        if b"typename" in code:
            self.each(_TYPENAME_VALUE, 0)
        if b"] __" in code or b"]__" in code:
            self.each(_LAMBDA_QUALIFIER, 1)
        if b"RESTRICT" in code or b"restrict" in code:
            self.each(_RESTRICT_MACRO, 1)
        if b"template" in code:
            self.each(_TEMPLATE_MEMBER, 1)
        if b"::" in code and _NUMBERED.search(code):
            self.each(_NUMBERED_TYPE, 1)
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
            if before(code, start) == 44:
                comma = code.rfind(b",", 0, start)
                self.mark("bits", comma, end - 1, code[comma : end - 1])
                continue
            low = max(0, start - 400)
            kind = _BITS_TYPE.search(code[low:start])
            if kind and kind[1].split()[0] not in (b"case", b"default", b"public", b"private", b"protected"):
                last = code[end - 1 : end] == b";"
                begin = low + kind.start(1) if last else start
                self.mark("bits", begin, end - 1 if last else end, code[begin : end - 1])

    def dynamic_shared(self) -> None:
        """`HIP_DYNAMIC_SHARED(T, x)` becomes `extern __shared__ T x[];`, which is what it expands to, as it fits."""
        for match in _DYNAMIC_SHARED.finditer(bytes(self.code)):
            start, end = match.span()
            closed = self.code[(after := skip_space(self.code, end)) : after + 1] == b";"
            head, tail = b"extern __shared__ " + match[1], b" " + match[2] + (b"[]" if closed else b"[];")
            room = end - start - len(head) - len(tail)
            if room >= 0 and b"\n" not in match[0]:
                made = head + b" " * room + tail
                self.text[start:end] = made
                self.code[start:end] = made

    def bit_cast(self, at: int) -> None:
        """`__builtin_bit_cast(T, x)` becomes `(T)(x)`, or `((T) x)` when nothing follows the comma."""
        opening = skip_space(self.code, at + 18)
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
