"""Decoding of literals: integers, characters, strings with escapes, raw strings."""

from __future__ import annotations

import re

from warplint.patterns import late

_NUMBER = late(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)([uUlLzZ]*)")
_ESCAPE = late(r"\\(?:x([0-9a-fA-F]{1,8})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|\r?\n|(.))", re.S)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_RAW = late(r'(?:u8|[uUL])?R"([^()\\\s]{0,16})\((.*)\)\1"\Z', re.S)
_PLAIN = late(r'(?:u8|[uUL])?(["\'])(.*)\1\Z', re.S)
_MAX_DIGITS = 80


def number(text: str) -> tuple[int | None, bool, int]:
    """`(value, unsigned, bits)` of a numeric literal; value None for floats and for user-defined suffixes.

    The type follows C++ [lex.icon]: the smallest of int, long (64 bits) that holds it, unsigned ones too for
    hexadecimal, octal and binary literals.
    """
    text = text.replace("'", "")
    if text[:1] in ("-", "+"):  # the grammar reads `-1` as one literal where an operand may stand
        value, unsigned, bits = number(text[1:])
        if value is not None and text[0] == "-":
            value = (-value) % (1 << bits) if unsigned else -value
        return value, unsigned, bits
    match = _NUMBER.fullmatch(text) if len(text) < _MAX_DIGITS else None
    if not match:
        return None, False, 64
    digits, suffix = match[1], match[2].lower()
    lead = digits[:2].lower()
    if lead == "0x":
        value = int(digits, 16)
    elif lead == "0b":
        value = int(digits, 2)
    elif digits[0] == "0" and len(digits) > 1:
        if not all(digit in "01234567" for digit in digits):
            return None, False, 64
        value = int(digits, 8)
    else:
        value = int(digits)
    unsigned = "u" in suffix
    bits = 64 if "l" in suffix or "z" in suffix else 32
    decimal = digits[0] != "0" or len(digits) == 1
    if bits == 32 and (value >= 1 << 32 or (value >= 1 << 31 and decimal and not unsigned)):
        bits = 64
    if value >= 1 << (bits - 1) and not decimal:
        unsigned = True
    return value, unsigned, bits


def string(text: str) -> str | None:
    """Value of one string literal, quotes included; None when it is not a whole literal."""
    raw = _RAW.match(text)
    if raw:
        return raw[2]
    match = _PLAIN.match(text)
    if not match or match[1] != '"':
        return None
    return unescape(match[2])


def character(text: str) -> int | None:
    """Value of a character literal; None for a broken one."""
    match = _PLAIN.match(text)
    if not match or match[1] != "'":
        return None
    value = unescape(match[2])
    return ord(value) if len(value) == 1 else None


def unescape(text: str) -> str:
    """Text with its C escapes decoded; an unknown escape stands for its letter."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    wide = match[1] or match[2] or match[3]
    if wide:
        value = int(wide, 16)
        return chr(value) if value < 0x110000 and not 0xD800 <= value < 0xE000 else "\ufffd"
    if match[4]:
        return chr(int(match[4], 8))
    letter = match[5]
    if letter is None:  # a spliced line
        return ""
    return _LETTERS.get(letter, letter)
