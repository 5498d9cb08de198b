"""Rewrites of source text that change how a kernel is written and nothing of what it does.

Each takes text and returns text with the same number of lines in the same order, so that findings stay comparable
by line; or, where it must add lines, marks them `//+` at the end of the line, and `original_line` maps back.
Comments and string literals are never touched.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"\((?:.|\n)*?\)\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*|\d[\w.]*|\s+|.",
    re.DOTALL,
)
ADDED = "//+"


def tokens(text: str) -> list[str]:
    """The text in pieces that join to itself."""
    return TOKEN.findall(text)


def is_comment(token: str) -> bool:
    return token.startswith(("//", "/*"))


def original_line(rewritten: str, line: int) -> int:
    """The line of the original text that stands at a line of the rewritten one."""
    lines = rewritten.split("\n")[:line]
    return len(lines) - sum(1 for text in lines if text.endswith(ADDED))


# ------------------------------------------------------------------------------------------------------- names
_LOCAL = re.compile(
    r"\b(?:int|unsigned|float|bool|uint32_t|uint64_t|uint|auto|double|half)\s+(?:const\s+)?([a-z]\w*)\s*(?=[=;\[])"
)


def rename(text: str) -> str:
    """Every local variable that is declared as a plain scalar or array gets another name."""
    declared = {
        name
        for name in _LOCAL.findall("".join(token for token in tokens(text) if not is_comment(token)))
        if not name.startswith(("cuda", "tvm_", "ptx_", "hip"))
    }
    # A name that is also called, is a member, or stands in a macro or assembly text is left alone.
    plain = "".join(" " if is_comment(token) else token for token in tokens(text))
    for name in list(declared):
        if re.search(rf"(?:\.|->|::)\s*{name}\b|\b{name}\s*\(|%\[{name}\]", plain) or re.search(
            rf"^\s*#.*\b{name}\b", plain, re.MULTILINE
        ):
            declared.discard(name)
    return "".join(f"{token}_renamed" if token in declared else token for token in tokens(text))


# -------------------------------------------------------------------------------------------------- whitespace
def _directive_lines(text: str) -> set[int]:
    """Offsets of lines that belong to preprocessor directives or continue others: whitespace matters there."""
    return {i for i, line in enumerate(text.split("\n")) if line.lstrip().startswith("#") or line.endswith("\\")}


def _by_line(text: str, change: Callable[[str], str]) -> str:
    if 'R"' in text:
        return text  # blanks inside a raw string are part of it
    fixed = _directive_lines(text)
    lines = text.split("\n")
    inside = False  # of a comment over several lines
    out = []
    for number, line in enumerate(lines):
        after_splice = number > 0 and lines[number - 1].endswith("\\")
        out.append(line if number in fixed or after_splice or inside or "/*" in line or "*/" in line else change(line))
        if "/*" in line and "*/" not in line.rsplit("/*", 1)[1]:
            inside = True
        elif "*/" in line:
            inside = False
    return "\n".join(out)


def spread(text: str) -> str:
    """More blanks and tabs around what may have them."""

    def change(line: str) -> str:
        pieces = []
        for token in tokens(line):
            if token in (",", "(", ")", ";", "{", "}", "?") and not is_comment(token):
                pieces.append(f" {token}\t")
            else:
                pieces.append(token)
        return "".join(pieces)

    return _by_line(text, change)


def dense(text: str) -> str:
    """No indentation, one blank at most."""
    return _by_line(text, lambda line: "".join(" " if token.isspace() else token for token in tokens(line.strip())))


def windows(text: str) -> str:
    """CRLF line ends."""
    return text.replace("\n", "\r\n")


def comments(text: str) -> str:
    """Comments with code in them between tokens."""
    noise = ["/* __syncthreads(); */", "/**/", "/* } if (threadIdx.x < 3) { */", "/* \" ' \\ */"]
    chance = random.Random(5)

    def change(line: str) -> str:
        return "".join(
            f"{token}{chance.choice(noise)}" if token in (";", "{", ",") and chance.random() < 0.3 else token
            for token in tokens(line)
        )

    return _by_line(text, change)


def blank_lines(text: str) -> str:
    """A line of comment after every line that ends a statement."""

    def change(line: str) -> str:
        return f"{line}\n  {ADDED}" if re.search(r"[;{}]\s*$", line) else line

    return _by_line(text, change)


# ------------------------------------------------------------------------------------------------------ control
def _ifs(text: str) -> Iterator[tuple[int, int, int, int]]:
    """Ifs with a braced body and no else: (start, condition's end, body's start, body's end), outermost last."""
    code = [(m.start(), m.group()) for m in TOKEN.finditer(text)]
    index = {start: number for number, (start, _) in enumerate(code)}
    found = []
    for number, (start, token) in enumerate(code):
        if token != "if" or _previous(code, number) in ("else", "constexpr", "#"):
            continue
        opening = _next(code, number)
        if opening is None or code[opening][1] != "(":
            continue
        closing = _closing(code, opening)
        body = _next(code, closing) if closing is not None else None
        if closing is None or body is None or code[body][1] != "{":
            continue
        end = _closing(code, body)
        if end is None:
            continue
        behind = _next(code, end)
        if behind is not None and code[behind][1] == "else":
            continue
        found.append((start, code[closing][0], code[body][0], code[end][0]))
    assert all(start in index for start, *_ in found)
    return iter(sorted(found, reverse=True))


def _previous(code: list[tuple[int, str]], number: int) -> str:
    while number > 0:
        number -= 1
        token = code[number][1]
        if not token.isspace() and not is_comment(token):
            return token
    return ""


def _next(code: list[tuple[int, str]], number: int) -> int | None:
    for at in range(number + 1, len(code)):
        if not code[at][1].isspace() and not is_comment(code[at][1]):
            return at
    return None


def _closing(code: list[tuple[int, str]], number: int) -> int | None:
    pairs = {"(": ")", "{": "}"}
    opening, closing, depth = code[number][1], pairs[code[number][1]], 0
    for at in range(number, len(code)):
        depth += (code[at][1] == opening) - (code[at][1] == closing)
        if depth == 0:
            return at
    return None


def _condition(text: str, start: int, end: int) -> str:
    return text[text.index("(", start) + 1 : end]


def _rewrite_ifs(text: str, change: Callable[[str, str], tuple[str, str, str] | None]) -> str:
    """Applies `change(condition, body) -> (before, new head with brace, closing)` to every such if, nested ones too."""
    edits: list[tuple[int, int, str]] = []
    for start, close, body, end in _ifs(text):
        condition = _condition(text, start, close)
        new = change(condition, text[body + 1 : end]) if "//" not in condition else None
        if new is not None:
            before, head, tail = new
            edits.append((start, body + 1, before + head + text[close + 1 : body].strip(" ")))
            edits.append((end, end + 1, tail))
    for start, end, new_text in sorted(edits, reverse=True):
        text = text[:start] + new_text + text[end:]
    return text


def hoist(text: str) -> str:
    """`if (c) {...}` becomes `{ const bool guard = (c); if (guard) {...} }`."""
    count = iter(range(10**6))

    def change(condition: str, body: str) -> tuple[str, str, str]:
        name = f"hoisted_{next(count)}"
        return f"{{ const bool {name} = ({condition}); ", f"if ({name}) {{", "} }"

    return _rewrite_ifs(text, change)


def negate(text: str) -> str:
    """`if (c) {...}` becomes `if (!(c)) {} else {...}`."""
    return _rewrite_ifs(text, lambda condition, body: ("", f"if (!({condition})) {{}} else {{", "}"))


def split_and(text: str) -> str:
    """`if (a && b) {...}` becomes `if (a) { if (b) {...} }`, at the outermost operator."""

    def change(condition: str, body: str) -> tuple[str, str, str] | None:
        depth, cut = 0, -1
        for at, char in enumerate(condition):
            depth += (char in "([{") - (char in ")]}")
            if depth == 0 and condition.startswith("||", at):
                return None
            if depth == 0 and condition.startswith("&&", at) and cut < 0:
                cut = at
        if cut < 0:
            return None
        return "", f"if ({condition[:cut]}) {{ if ({condition[cut + 2 :]}) {{", "} }"

    return _rewrite_ifs(text, change)


def wrap(text: str) -> str:
    """`if (c) {...}` becomes `do { if (c) {...} } while (0);` where nothing inside leaves a loop."""

    def change(condition: str, body: str) -> tuple[str, str, str] | None:
        if re.search(r"\b(?:break|continue|goto)\b", body):
            return None
        return "do { ", f"if ({condition}) {{", "} } while (0);"

    return _rewrite_ifs(text, change)


REWRITES: dict[str, Callable[[str], str]] = {
    "rename": rename,
    "spread": spread,
    "dense": dense,
    "windows": windows,
    "comments": comments,
    "blank lines": blank_lines,
    "hoist": hoist,
    "negate": negate,
    "split and": split_and,
    "wrap": wrap,
}


# ---------------------------------------------------------------------------------------------------------- hip
_HIP = {
    "cuda_runtime.h": "hip/hip_runtime.h",
    "cudaLaunchKernel": "hipLaunchKernel",
    "cudaStream_t": "hipStream_t",
    "cudaMalloc": "hipMalloc",
    "cudaFuncSetAttribute": "hipFuncSetAttribute",
}
_CUDA_ONLY = re.compile(
    r"asm|mbarrier|tcgen05|wgmma|cp_async|cuda::|cooperative|cluster|tvm_|ptx_|CUtensorMap|__activemask|_sync\s*\(|"
    r"__CUDA_ARCH__|__nv|cute|cutlass|tl::|griddep|cg::|nanosleep|__grid_constant__|__maxnreg|__block_size__"
)


def to_hip(text: str) -> str | None:
    """The mechanical spelling for HIP, or None where an operation has none."""
    if _CUDA_ONLY.search("".join(token for token in tokens(text) if not is_comment(token))):
        return None
    for cuda, hip in _HIP.items():
        text = text.replace(cuda, hip)
    return "#include <hip/hip_runtime.h>  //+\n" + text if "hip_runtime.h" not in text else text
