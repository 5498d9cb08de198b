"""The operators of the abstract domain: C arithmetic, comparison and conversion over all threads of a block at once.

Unknown operands combine to the least uniformity of the two; short cuts keep what is certain anyway (`0 && x`,
`x == x`), thread by thread, so that `warp == 4 && flag` is a flag for warp 4 and zero for the others.
"""

from __future__ import annotations

from msgspec.structs import replace

from warplint.threads import bits
from warplint.threads.affine import Affine
from warplint.threads.facts import Elected, Known, Opaque, Pointer, Uniformity, Value
from warplint.threads.lattice import CTA, GRID, LANE, Lattice, Mix, least
from warplint.threads.scalar import BOOLEAN_OPS, binary_int, cast_int, fits, many, mirrored

COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})

__all__ = ["CTA", "GRID", "LANE", "Domain", "Mix", "least"]


class Domain(Lattice):
    """Values over the threads of one block, with C's operators."""

    def __init__(self, threads: int, warp_size: int) -> None:
        super().__init__(threads, warp_size)
        self.affine = Affine(self)
        self._floors: dict[tuple[object, int], tuple[Uniformity, bool]] = {}

    def unary(self, op: str, arg: Value) -> Value:
        """`-x`, `!x` or `~x`."""
        if op == "-":
            return self.binary("-", self.const(0), arg)
        if op == "~":
            return self.binary("^", arg, self.const(-1))
        return self.binary("==", arg, self.const(0))

    def binary(self, op: str, left: Value, right: Value) -> Value:
        """`left op right`; division by zero and absurd shifts are unknown."""
        memo = (op, id(left), id(right))
        held = self._memo.get(memo)
        if held is not None:
            return held[0]
        return self._remember(memo, self._binary(op, left, right), left, right)

    def _binary(self, op: str, left: Value, right: Value) -> Value:
        if isinstance(left, Mix) or isinstance(right, Mix):
            pieces = []
            for mask, one in self.parts(left, self.everyone):
                for part, two in self.parts(right, mask):
                    pieces.append((part, self.binary(op, one, two)))
            return self.gather(self._flat(pieces))
        if isinstance(left, Known) and isinstance(right, Known):
            return self._known_binary(op, left, right)
        if isinstance(left, Pointer) or isinstance(right, Pointer):
            result = self._pointer_binary(op, left, right)
            if result is not None:
                return result
        if isinstance(left, Elected) or isinstance(right, Elected):
            result = self._elected_binary(op, left, right)
            if result is not None:
                return result
        return self._unknown_binary(op, left, right)

    def _known_binary(self, op: str, left: Known, right: Known) -> Value:
        a, b = left.each, right.each
        if isinstance(a, int) and isinstance(b, int):
            value = binary_int(op, a, b)
            return self.fresh(GRID, why=f"`{op}` has no defined result") if value is None else self.const(value)
        ones = a if isinstance(a, tuple) else (a,) * self.threads
        twos = b if isinstance(b, tuple) else (b,) * self.threads
        quick = many(op, ones, twos)
        if quick is not None:
            return self.known(quick)
        cache: dict[tuple[int, int], int | None] = {}
        each: list[int | None] = []
        for pair in zip(ones, twos, strict=True):
            if pair not in cache:
                cache[pair] = binary_int(op, *pair)
            each.append(cache[pair])
        good = [value for value in each if value is not None]
        if len(good) == len(each):
            return self.known(good)
        if not good:
            return self.fresh(LANE, why=f"`{op}` has no defined result")
        undefined = bits.of_truths([value is None for value in each])
        filled = self.known([good[0] if value is None else value for value in each])
        return self.mix(undefined, self.fresh(LANE, why=f"`{op}` has no defined result"), filled)

    def _pointer_binary(self, op: str, left: Value, right: Value) -> Value | None:
        if isinstance(left, Pointer) and isinstance(right, Pointer):
            if left.symbol is not right.symbol or left.cta is not right.cta:
                return None
            if op in BOOLEAN_OPS or op == "-":
                return self.binary(op, left.offset, right.offset) if op not in ("&&", "||") else self.const(1)
            return None
        if isinstance(left, Pointer):
            if op in ("+", "-"):
                return replace(left, offset=self.binary(op, left.offset, right))
            if isinstance(right, Known) and isinstance(right.each, int):
                if op == "&" and left.symbol.alignment and self._keeps_base(left.symbol.alignment, right.each):
                    # A mask over the low bits of an address whose base is a multiple of it only touches the offset.
                    low = (
                        (-1 << 64) | right.each
                        if right.each >= 0 and right.each.bit_length() in (32, 64)
                        else right.each
                    )
                    return replace(left, offset=self.binary("&", left.offset, self.const(low)))
                if right.each == 0 and op in ("==", "!="):
                    return self.const(1 if op == "!=" else 0)
            if op == "||":
                return self.const(1)
            if op == "&&":
                return self.binary("!=", right, self.const(0))
            return None
        if op == "+" and isinstance(right, Pointer):
            return self._pointer_binary(op, right, left)
        if op in ("==", "!=", "||", "&&"):
            return self._pointer_binary(op, right, left)
        return None

    @staticmethod
    def _keeps_base(alignment: int, mask: int) -> bool:
        dropped = ~mask
        if mask >= 0:
            dropped &= (1 << max(32, mask.bit_length())) - 1
        return dropped >= 0 and dropped & (dropped + 1) == 0 and alignment % (dropped + 1) == 0

    def _elected_binary(self, op: str, left: Value, right: Value) -> Value | None:
        if isinstance(left, Elected) and isinstance(right, Elected):
            return left if left.key == right.key and op in ("&", "|", "&&", "||") else None
        if isinstance(right, Elected):
            if op in ("&&", "||", "&", "|", "==", "!="):
                return self._elected_binary(op, right, left)
            flipped = mirrored(op)
            return None if flipped is None else self._elected_binary(flipped, right, left)
        if not isinstance(left, Elected):
            return None
        if isinstance(right, Opaque) and (op == "&&" or (op == "&" and self._is_boolean(right))):
            return self._conditional(left, right)
        if not isinstance(right, Known):
            return None
        if isinstance(right.each, tuple):
            if op not in ("&&", "&", "||"):
                return None
            pieces: list[tuple[int, Value]] = []
            for truth in (True, False):
                mask = self.mask(right) if truth else self.everyone & ~self.mask(right)
                if mask and op == "&" and any(right.each[thread] not in (0, 1) for thread in bits.members(mask)):
                    return None
                value = self._elected_binary(op, left, self.const(int(truth)))
                if mask and value is not None:
                    pieces.append((mask, value))
            return self.gather(pieces)
        constant = right.each
        if op == "&&":
            return left if constant else self.const(0)
        if op == "||":
            return self.const(1) if constant else left
        # The result of an election is 0 or 1 (a predicate, or selp 1,0).
        holds_zero, holds_one = binary_int(op, 0, constant), binary_int(op, 1, constant)
        if holds_zero is None or holds_one is None:
            return None
        if bool(holds_zero) == bool(holds_one):
            return self.const(holds_zero) if holds_zero == holds_one else None
        if not holds_zero and holds_one == 1:
            return left
        return None

    @staticmethod
    def _conditional(elected: Elected, flag: Opaque) -> Elected | None:
        """An election that counts only where a warp-uniform flag is set: key (mask, threads, level, varies)."""
        if flag.uniformity < Uniformity.WARP or not isinstance(elected.key, tuple):
            return None
        name, threads, *rest = elected.key
        level, varies = least((rest[0], rest[1]) if rest else (GRID, False), (flag.uniformity, flag.varies))
        return Elected((name, threads, level, varies))

    def _unknown_binary(self, op: str, left: Value, right: Value) -> Value:
        if self.same(left, right):
            if op in ("==", "<=", ">="):
                return self.const(1)
            if op in ("!=", "<", ">", "-", "^"):
                return self.const(0)
            if op in ("&", "|", "min", "max"):
                return left
        for one, other, swapped in ((left, right, False), (right, left, True)):
            if isinstance(one, Known):
                short = self._short_cut(op, one, other, swapped)
                if short is not None:
                    return short
        if op == "/" and isinstance(left, Known) and isinstance(right, Opaque):
            whole = self._by_whole_warps(left, right)
            if whole is not None:
                return whole
        decided = self._of_choice(op, left, right) if op in COMPARISONS else None
        if decided is not None:
            return decided
        if not (op in ("==", "!=") and (self._is_boolean(left) or self._is_boolean(right))):
            found = self.affine.binary(op, left, right)
            if found is not None:
                return found
        return self.generic(op, left, right)

    def _by_whole_warps(self, left: Known, right: Opaque) -> Value | None:
        """`thread / (n * warp size)` is `warp / n`: the same for all lanes of a warp."""
        size = self.warp_size
        form = self.affine.sum_of(right)
        if form is None or not form.exact or form.offset.each != 0 or any(by % size for _, by in form.terms):
            return None
        if self.signed(left) or isinstance(left.each, int):
            return None
        return self.generic("/", self.binary("/", left, self.const(size)), right)

    def _of_choice(self, op: str, left: Value, right: Value) -> Value | None:
        """A known value compared with one of two known values: a choice between the two results.

        `lane + 32 * warp < valid` with a `valid` of 128 or 0 is the same for all threads, though the lanes' numbers are
        not.
        """
        for one, other in ((left, right), (right, left)):
            if not (isinstance(one, Known) and isinstance(other, Opaque) and isinstance(other.key, int)):
                continue
            choice = self._choices.get(other.key)
            if choice is None:
                continue
            yes, no = (
                self.binary(op, one, each) if one is left else self.binary(op, each, one)
                for each in (choice.yes, choice.no)
            )
            if isinstance(yes, Known) and isinstance(no, Known):
                holds, fails = self.mask(yes), self.mask(no)
                true, false = self.const(1), self.const(0)
                pieces: list[tuple[int, Value]] = [(holds & fails, true), (self.everyone & ~(holds | fails), false)]
                for mask, first, second in ((holds & ~fails, true, false), (fails & ~holds, false, true)):
                    if mask:
                        pieces.append((mask, self.join(first, second, choice.by, choice.varies, choice.key)))
                return self.gather((mask, value) for mask, value in pieces if mask)
        return None

    def generic(self, op: str, left: Value, right: Value) -> Opaque:
        """An operator on unknowns about which nothing but uniformity is known."""
        level, varies = least(self.floor(left, self.everyone), self.floor(right, self.everyone))
        if op in ("/", ">>", "&") and not isinstance(right, Known):
            varies = False  # by an unknown it may come out the same for all
        why = next((v.why for v in (left, right) if isinstance(v, Opaque) and v.why), "")
        left_key, right_key = self.key_of(left), self.key_of(right)
        if left_key is None or right_key is None:
            value = self.fresh(level, varies, why)
        else:
            value = Opaque(level, varies, self._operator_key(op, left_key, right_key), why)
        self.mark_across(value, left, right)
        if op in BOOLEAN_OPS:
            return value
        return self.mark_signed(value) if op in ("-", "^") else self.mark_signed(value, left, right)

    def _operator_key(self, op: str, left: object, right: object) -> int:
        if op in (">", ">="):
            op, left, right = ("<" if op == ">" else "<="), right, left
        if op in ("!=", "<="):
            base = self._operator_key("==", left, right) if op == "!=" else self._operator_key("<", right, left)
            key = self.key("not", base)
            self._negated[key] = base
            self._boolean.add(key)
            return key
        if op in ("==", "+", "*", "&", "|", "^", "min", "max") and self.key(left) > self.key(right):
            left, right = right, left
        key = self.key(op, left, right)
        if op in BOOLEAN_OPS:
            self._boolean.add(key)
        if op == "==":
            # Comparing a truth value with a constant 0 is its negation.
            inner = right if left == 0 else left if right == 0 else None
            if isinstance(inner, tuple) and inner[0] == "opaque" and inner[1] in self._boolean:
                self._negated[key] = inner[1]
        return key

    def _is_boolean(self, value: Value) -> bool:
        return isinstance(value, Opaque) and value.key in self._boolean

    def _short_cut(self, op: str, known: Known, other: Value, swapped: bool) -> Value | None:
        """Results that one known operand decides; `swapped` when it stands on the right."""
        if op in ("&&", "||", "&", "*") and isinstance(known.each, tuple):
            zeros = self.everyone & ~self.mask(known)
            if not zeros or (op == "&" and (not self._is_boolean(other) or any(v not in (0, 1) for v in known.each))):
                return None
            if op == "*" and self.level(known, self.everyone) < Uniformity.WARP:
                return None
            if op == "*":
                return None
            yes = self._short_cut(op, self.const(1), other, swapped)
            no = self._short_cut(op, self.const(0), other, swapped)
            if yes is None or no is None:
                return None
            return self.gather(self.parts(yes, self.everyone & ~zeros) + self.parts(no, zeros))
        constant = known.each
        if not isinstance(constant, int):
            return None
        if op == "&&":
            return self.truth(other) if constant else self.const(0)
        if op == "||":
            return self.const(1) if constant else self.truth(other)
        if op in ("*", "&") and constant == 0:
            return self.const(0)
        if op == "&" and constant == 1 and self._is_boolean(other):
            return other
        if op in ("+", "|", "^") and constant == 0:
            return other
        if op == "*" and constant == 1:
            return other
        if swapped:
            if op in ("-", "<<", ">>") and constant == 0:
                return other
            if op == "/" and constant == 1:
                return other
            if op == "%" and constant in (1, -1):
                return self.const(0)
            if op == "!=" and constant == 0 and self._is_boolean(other):
                return other
            if op == "==" and constant == 1 and self._is_boolean(other):
                return other
        return None

    def truth(self, value: Value) -> Value:
        """`value != 0`."""
        return value if self._is_boolean(value) else self.binary("!=", value, self.const(0))

    def cast(self, kind: str, value: Value) -> Value:
        """Conversion to a scalar type; floats and unknown types lose the number but not the uniformity."""
        memo = ("cast", kind, id(value))
        held = self._memo.get(memo)
        if held is not None:
            return held[0]
        return self._remember(memo, self._cast(kind, value), value)

    def _cast(self, kind: str, value: Value) -> Value:
        if isinstance(value, Mix):
            pieces = [(mask, self.cast(kind, part)) for mask, part in value.parts]
            return self.gather(self._flat(pieces))
        if kind == "bool":
            return value if isinstance(value, Elected) else self.truth(value)
        if isinstance(value, Known):
            if kind in ("f32", "f64", "other"):
                level, varies = self.floor(value, self.everyone)
                real = Opaque(level, varies, self.key("cast", kind, self.key_of(value)), "not an integer")
                return self.mark_across(real, value)
            if isinstance(value.each, int):
                return self.const(cast_int(kind, value.each))
            if fits(kind, min(value.each)) and fits(kind, max(value.each)):
                return value
            return self.known([cast_int(kind, each) for each in value.each])
        # A truth value fits every type; any other unknown may wrap, which is another value (but a function of it).
        if isinstance(value, Opaque) and value.key is not None and not self._is_boolean(value):
            key = self.key("cast", kind, value.key)
            cast = self.affine.cast(kind, value, key)
            if cast is None:
                cast = self.mark_across(replace(value, key=key), value)
                if kind in ("i8", "i16"):
                    self.mark_signed(cast)
            return cast
        return value

    def _join(self, left: Value, right: Value, by: Uniformity, varies: bool, key: object) -> Value:
        value = super()._join(left, right, by, varies, key)
        self.affine.chosen(value, left, right)
        return value

    def floor(self, value: Value, threads: int) -> tuple[Uniformity, bool]:
        """(uniformity, varies) over a thread set; a sum may be more uniform there than over the block."""
        if isinstance(value, Opaque):
            if value.uniformity >= CTA:
                return value.uniformity, False
            form = self.affine.sum_of(value)
            if form is not None:
                held = self._floors.get((value.key, threads))
                if held is None:
                    level, varies = self.affine.floor(form, threads)
                    held = self._floors[value.key, threads] = max(level, value.uniformity), varies and value.varies
                return held
        return super().floor(value, threads)

    def restrict(self, value: Value, threads: int) -> Value:
        """The simplest value that is right for these threads; for others nothing is claimed."""
        value = super().restrict(value, threads)
        if isinstance(value, Opaque) and value.uniformity < CTA:
            return self.affine.restricted(value, threads)
        return value
