"""Preprocessor directives: which branch of an `#if` is read, the file's own macros, its includes and its pragmas.

No header is opened here: `hide` goes through the text of those that came along (`SourceFile.parts`). A branch is taken
when its condition is known to be true, else the first branch whose condition is not known to be false:
`__CUDA_ARCH__` is taken as "as new as it gets" (device code behind `__CUDA_ARCH__ >= N` is what we are here to read),
`__CUDACC_RTC__` as undefined, other names as unknown until the file itself defines them.

Compilers read a file once for the host and once for each target: `__CUDA_ARCH__`, `__HIP_DEVICE_COMPILE__` and the
macros of a target are defined in device code only. What is read here is the device pass, unless `Target.host` says
otherwise; `Preprocessor.passes` tells whether a condition asked for such a name.
"""

from __future__ import annotations

import re
from itertools import islice

from msgspec import Struct, field
from msgspec.structs import replace

from warplint.patterns import late
from warplint.source import Span
from warplint.syntax.ast import Macro

Value = float | None
"""A condition's value: a number, infinity for "very new", None for unknown."""

NEWEST = float("inf")
_PREDEFINED: dict[str, Value] = {
    "__CUDACC__": 1,
    "__NVCC__": 1,
    "__cplusplus": 202002,
    "__CUDA_ARCH__": NEWEST,
    "__CUDACC_VER_MAJOR__": NEWEST,
    "CUDA_VERSION": NEWEST,
    "CUDART_VERSION": NEWEST,
    "__GNUC__": NEWEST,
    "true": 1,
    "false": 0,
}
_UNDEFINED = frozenset({"__CUDACC_RTC__", "_MSC_VER", "_WIN32", "__INTELLISENSE__", "__clangd__", "__DOXYGEN__"})
_HIP_NAMES = ("__HIP__", "__HIPCC__", "__HIP_PLATFORM_AMD__", "__HIP_PLATFORM_HCC__", "USE_ROCM", "GGML_USE_HIP")
_CUDA_ONLY = (
    "__CUDACC__", "__NVCC__", "__CUDA_ARCH__", "__CUDACC_VER_MAJOR__", "CUDA_VERSION", "CUDART_VERSION",
    "__HIP_PLATFORM_NVIDIA__", "__HIP_PLATFORM_NVCC__",
)  # fmt: skip
_AMD_DEVICE = frozenset({"__HIP_DEVICE_COMPILE__", "__AMDGCN__", "__AMDGPU__"})
_WAVE_NAMES = frozenset({"__AMDGCN_WAVEFRONT_SIZE__", "__AMDGCN_WAVEFRONT_SIZE"})
_GENERATION = late(r"__GFX(\d+)__")
_PROCESSOR = late(r"__(gfx\d+[0-9a-f]*)__")
_TARGET = late(r"gfx(\d+)[0-9a-f]{2}")

_TOKEN = late(r"\s*(?:(0[xX][0-9a-fA-F']+|\d[\d']*)[uUlL]*|([A-Za-z_]\w*)|(<<|>>|<=|>=|==|!=|&&|\|\||\S))")
_SPELLED = {"and": "&&", "or": "||", "not": "!", "bitand": "&", "bitor": "|", "xor": "^", "compl": "~", "not_eq": "!="}
_LEVELS = {"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7}
_LEVELS |= {"<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10}
_MAX_TOKENS = 600
_MAX_DEPTH = 40
_DEFINE = late(r"#\s*define\s+([A-Za-z_]\w*)(\(([^()]*)\))?(.*)", re.S)
_INCLUDE = late(r"#\s*include\s*[<\"]([^>\"\n]+)[>\"]")
_WORD = late(rb"#\s*([a-z_]+)")
_COMMENT = late(r"/\*(?:.*?\*/|.*)|//[^\n]*", re.S)
_SPLICE = late(r"\\\r?\n")


def wave_of(arch: str) -> int:
    """Lanes of a wave of an AMD target: 64 up to gfx9, 32 from gfx10 on (what HIP supports there); 0: not known."""
    match = _TARGET.fullmatch(arch)
    return 0 if match is None else 64 if int(match[1]) < 10 else 32


class Target(Struct, frozen=True):
    """Whom a file is read for."""

    amd: bool = False
    """AMD's compiler (it decides `#ifdef __HIP_PLATFORM_AMD__`)."""
    arch: str = ""
    """`gfx942` decides `#if defined(__GFX9__)`; empty: unknown."""
    host: bool = False
    """The host's code: the macros that only device code has are not defined."""


class _Conditions:
    """A recursive-descent evaluator of `#if` expressions over known and unknown values, with bounded depth."""

    def __init__(self, text: str, names: Preprocessor, depth: int) -> None:
        self.tokens = [m.groups() for m in islice(_TOKEN.finditer(text), _MAX_TOKENS)]
        self.at = 0
        self.names = names
        self.depth = depth

    def next(self) -> str:
        """The next token's text without consuming it, "" at the end."""
        if self.at >= len(self.tokens):
            return ""
        number, word, sign = self.tokens[self.at]
        return number or _SPELLED.get(word or "", word) or sign or ""

    def expression(self, level: int = 0, depth: int = 0) -> Value:
        """A whole expression whose binary operators bind tighter than `level`."""
        if depth > _MAX_DEPTH:
            self.at = len(self.tokens)
            return None
        left = self.unary(depth + 1)
        while True:
            sign = self.next()
            if sign == "?" and level == 0:
                self.at += 1
                yes = self.expression(0, depth + 1)
                self.at += self.next() == ":"
                no = self.expression(0, depth + 1)
                left = None if left is None else (yes if left else no)
                continue
            binds = _LEVELS.get(sign, 0)
            if binds <= level:
                return left
            self.at += 1
            left = _binary(sign, left, self.expression(binds, depth + 1))

    def unary(self, depth: int) -> Value:
        """An operand with its prefix operators."""
        token = self.next()
        self.at += 1
        if depth > _MAX_DEPTH or not token:
            return None
        if token == "!":
            value = self.unary(depth + 1)
            return None if value is None else float(not value)
        if token in "-+~":
            value = self.unary(depth + 1)
            if value is None or token == "+":
                return value
            return -value if token == "-" else None
        if token == "(":
            value = self.expression(0, depth + 1)
            self.at += self.next() == ")"
            return value
        if token[0].isdigit():
            digits = token.replace("'", "")
            try:
                return int(digits, 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10)
            except ValueError:
                return None
        if token == "defined":
            parens = self.next() == "("
            self.at += parens
            name = self.next()
            self.at += 1
            self.at += parens and self.next() == ")"
            return self.names.defined(name)
        if self.next() == "(":
            self.skip_parens()
            return None
        return self.names.value(token, self.depth)

    def skip_parens(self) -> None:
        """Step over a parenthesised group: the arguments of `__has_include(...)` or of a macro."""
        depth = 0
        while self.at < len(self.tokens):
            token = self.next()
            self.at += 1
            depth += (token == "(") - (token == ")")
            if depth == 0:
                return


def _binary(sign: str, left: Value, right: Value) -> Value:
    """One operator over known and unknown values; `&&` and `||` are decided by one known side."""
    if sign == "&&":
        if left == 0 or right == 0:
            return 0
        return None if left is None or right is None else 1
    if sign == "||":
        if left or right:
            return 1
        return None if left is None or right is None else 0
    if left is None or right is None:
        return None
    if sign in ("<", ">", "<=", ">="):
        return float({"<": left < right, ">": left > right, "<=": left <= right, ">=": left >= right}[sign])
    if NEWEST in (left, right):  # "very new" equals nothing we know, and divides to itself
        return NEWEST if sign in "*/+" else None
    a, b = int(left), int(right)
    if sign in ("==", "!="):
        return float((a == b) == (sign == "=="))
    if sign in "/%":
        return None if b == 0 else (a // b if sign == "/" else a % b)
    if sign in ("<<", ">>"):
        return None if not 0 <= b < 64 else (a << b if sign == "<<" else a >> b)
    return {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}.get(sign)


class _Conditional(Struct):
    """One open `#if`: whether a branch was taken yet, and where the branch now skipped began (None while reading)."""

    settled: bool
    """A branch has been chosen; the later ones are skipped."""
    certain: bool
    """The choice rests on known values only."""
    skip_from: int | None
    skip_reason_known: bool = True
    outer_skip: bool = False


class Preprocessor(Struct):
    """Follows the directives of one file in order; `skipped` collects byte ranges of branches that are not read."""

    target: Target = Target()
    passes: bool = False
    """A condition asked for a name that host and device code have different answers for."""
    macros: list[Macro] = field(default_factory=list)
    table: dict[str, Macro | None] = field(default_factory=dict)
    """By name, the latest definition; None after `#undef`."""
    latest: dict[str, int] = field(default_factory=dict)
    """By name, where its latest definition stands in `macros`."""
    includes: list[str] = field(default_factory=list)
    skipped: list[tuple[int, int, bool]] = field(default_factory=list)
    """`(start, end, known)`: `known` when the condition decides it, not our preference."""
    stack: list[_Conditional] = field(default_factory=list)
    work: int = 0
    """Macro expansions done for the condition at hand: bounded, since macros may double at every level."""

    def defined(self, name: str) -> Value:
        """Value of `defined(name)`."""
        if name in self.table:
            return float(self.table[name] is not None)
        value = self.predefined(name)
        return value if value is None else float(value != 0)

    def predefined(self, name: str) -> Value:
        """Value of a name that the file does not define: 0 where it is not defined at all, None where nobody knows."""
        if name in _UNDEFINED:
            return 0
        amd = self.target.amd
        if name in _HIP_NAMES:
            return float(amd)
        if amd:
            if name in _CUDA_ONLY:
                return 0
            if name.startswith("__"):
                generation, processor = _GENERATION.fullmatch(name), _PROCESSOR.fullmatch(name)
                if name in _AMD_DEVICE or name in _WAVE_NAMES or generation or processor:
                    self.passes = True
                    return 0 if self.target.host else self._of_target(name, generation, processor)
        elif name in _AMD_DEVICE or name in _WAVE_NAMES:
            return 0
        elif name == "__CUDA_ARCH__":
            self.passes = True
            return 0 if self.target.host else NEWEST
        return _PREDEFINED.get(name)

    def _of_target(self, name: str, generation: re.Match[str] | None, processor: re.Match[str] | None) -> Value:
        """A macro that clang defines for an AMD target (Clang, `Targets/AMDGPU.cpp`)."""
        if name in _AMD_DEVICE:
            return 1
        match = _TARGET.fullmatch(self.target.arch)
        if match is None:
            return None
        if generation:
            return float(generation[1] == match[1])
        if processor:
            return float(processor[1] == self.target.arch)
        return wave_of(self.target.arch)

    def value(self, name: str, depth: int = 0) -> Value:
        """Value of an identifier in a condition: macros of the file are expanded, unknown names are unknown."""
        if name in self.table:
            macro = self.table[name]
            if macro is None:
                return 0
            self.work += 1
            if macro.params is not None or depth > 8 or self.work > 500:
                return None
            return _Conditions(macro.body, self, depth + 1).expression() if macro.body else None
        return self.predefined(name)

    @property
    def skipping(self) -> bool:
        """Whether the text at this point belongs to a branch that is not read."""
        return bool(self.stack) and self.stack[-1].skip_from is not None

    def directive(self, data: bytes, start: int, end: int) -> str:
        """Take one directive (from `#` to its last byte); returns its keyword."""
        match = _WORD.match(data, start, end)
        word = match[1].decode() if match else ""
        if word in ("if", "ifdef", "ifndef"):
            self._open(word, _clean(data[match.end() : end]) if match else "", end)
        elif word in ("elif", "elifdef", "elifndef", "else"):
            self._branch(word, _clean(data[match.end() : end]) if match else "", start, end)
        elif word == "endif":
            self.close(start)
        elif not self.skipping:
            if word == "define":
                self._define(data, start, end)
            elif word == "undef" and match:
                name = _clean(data[match.end() : end]).strip()
                self._end(name, start)
                self.table[name] = None
            elif word in ("include", "include_next"):
                found = _INCLUDE.match(data[start:end].decode("utf-8", "replace"))
                if found:
                    self.includes.append(found[1])
        return word

    def finish(self, size: int) -> int:
        """Close what is left open at the end of the file; returns how many `#if` had no `#endif`."""
        left = len(self.stack)
        while self.stack:
            self.close(size)
        return left

    def _test(self, word: str, text: str) -> Value:
        if word.endswith("def"):
            value = self.defined(text.split()[0] if text.split() else "")
            negated = word in ("ifndef", "elifndef")
            return None if value is None else float(bool(value) != negated)
        self.work = 0
        return _Conditions(text, self, 0).expression()

    def _open(self, word: str, text: str, end: int) -> None:
        if self.skipping or len(self.stack) > 4000:
            self.stack.append(_Conditional(True, True, end, outer_skip=True))
            return
        value = self._test(word, text)
        taken = value is None or bool(value)
        self.stack.append(_Conditional(taken, taken and value is not None, None if taken else end))

    def _branch(self, word: str, text: str, start: int, end: int) -> None:
        if not self.stack or self.stack[-1].outer_skip:
            return
        top = self.stack[-1]
        if top.skip_from is not None:
            self.skipped.append((top.skip_from, start, top.skip_reason_known))
            top.skip_from = None
        if top.settled:
            top.skip_from, top.skip_reason_known = end, top.certain
            return
        value = 1.0 if word == "else" else self._test(word if word != "elif" else "if", text)
        if value is None or value:
            top.settled, top.certain = True, value is not None
        else:
            top.skip_from, top.skip_reason_known = end, True

    def close(self, start: int) -> None:
        """The innermost open `#if` ends at `start`."""
        if not self.stack:
            return
        top = self.stack.pop()
        if top.skip_from is not None and not top.outer_skip:
            self.skipped.append((top.skip_from, start, top.skip_reason_known))

    def _end(self, name: str, at: int) -> None:
        """The definition that holds so far, if any, ends here."""
        number = self.latest.get(name)
        if number is not None and self.macros[number].until < 0:
            self.macros[number] = replace(self.macros[number], until=at)

    def _define(self, data: bytes, start: int, end: int) -> None:
        text = _clean(data[start:end])
        match = _DEFINE.match(text)
        if not match:
            return
        name, parens, params, rest = match.groups()
        if parens is not None:
            names = tuple(p.strip() for p in params.split(",")) if params.strip() else ()
        else:
            names = None
        self._end(name, start)
        macro = Macro(name, names, rest.strip(), Span(start, end))
        self.latest[name] = len(self.macros)
        self.macros.append(macro)
        self.table[name] = macro


def _clean(raw: bytes) -> str:
    """A directive's text with line splices joined and comments dropped (a string that holds `//` keeps it)."""
    text = raw.decode("utf-8", "replace")
    if "\\" in text:
        text = _SPLICE.sub(" ", text)
    if "/" in text and '"' not in text:
        text = _COMMENT.sub(" ", text)
    return text
