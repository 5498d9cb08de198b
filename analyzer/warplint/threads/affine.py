"""Sums of unknowns and known per-thread numbers: `blockIdx.x * 256 + threadIdx.x` and what is computed from it.

An `Opaque` whose key has a `Form` is `c1 * u1 + c2 * u2 + ... + offset`, with unknown integers `u` and a known
`offset` per thread. That is what index arithmetic is made of, and it decides questions that uniformity alone cannot:
`(blockIdx.x * 256 + threadIdx.x) / 32` is the same for all lanes of a warp, `% 32` is the lane, `< 1024` is the same
for the whole block, and `(base + lane) - lane` is `base` again.

Index arithmetic is taken not to wrap, and what comes from outside (arguments, loads, coordinates) not to be negative:
quotients and remainders of sums that may be negative are left alone.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from msgspec import Struct

from warplint.threads.facts import Known, Opaque, Uniformity, Value
from warplint.threads.lattice import least

if TYPE_CHECKING:
    from warplint.threads.domain import Domain

MAX_TERMS = 6
MAX_COEFFICIENT = 1 << 40


class Form(Struct, frozen=True, eq=False):
    """A sum of unknowns (by key, with coefficients) and a known offset per thread.

    `exact` is False after a conversion to an unsigned type that may have wrapped: then only low bits are certain.
    """

    terms: tuple[tuple[int, int], ...]
    offset: Known
    exact: bool = True


class Affine:
    """The forms of the unknowns of one domain."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._forms: dict[int, Form] = {}
        self._atoms: dict[int, Opaque] = {}

    # ------------------------------------------------------------------------------------------------- forms
    def form(self, value: Value) -> Form | None:
        """The form of a value; an unknown without one is a term by itself."""
        if isinstance(value, Known):
            return Form((), value)
        if not isinstance(value, Opaque) or not isinstance(value.key, int):
            return None
        held = self._forms.get(value.key)
        if held is None:
            self._atoms[value.key] = value
            held = Form(((value.key, 1),), self._domain.const(0))
        return held

    def divisor(self, value: Value) -> int:
        """A number that divides the value in every thread; 0 divides only 0, 1 says nothing."""
        if isinstance(value, Known):
            return gcd(value.each) if isinstance(value.each, int) else gcd(*value.each)
        form = self.sum_of(value) if isinstance(value, Opaque) else None
        if form is None or not form.exact:
            return 1
        return gcd(self.divisor(form.offset), *(by for _, by in form.terms))

    def chosen(self, value: Value, *among: Value) -> None:
        """Notes what divides a value that is one of several: `n == 0 ? 0 : (n + 31) / 32 * 32` is a multiple of 32."""
        if not isinstance(value, Opaque) or not isinstance(value.key, int) or value.key in self._forms:
            return
        common = gcd(*(self.divisor(each) for each in among))
        if common > 1:
            part = Opaque(value.uniformity, value.varies, self._domain.key("part", value.key, common), value.why)
            assert isinstance(part.key, int)
            self._atoms[part.key] = self._domain.mark_across(part, value)
            self._forms[value.key] = Form(((part.key, common),), self._domain.const(0))

    def sum_of(self, value: Opaque) -> Form | None:
        """The form of an unknown that is a proper sum."""
        return self._forms.get(value.key) if isinstance(value.key, int) else None

    def build(self, form: Form | None) -> Value | None:
        """The value of a form; None when it is out of bounds."""
        domain = self._domain
        if form is None:
            return None
        if not form.terms:
            return form.offset if form.exact else None
        if len(form.terms) > MAX_TERMS or any(abs(by) > MAX_COEFFICIENT for _, by in form.terms):
            return None
        if len(form.terms) == 1 and form.terms[0][1] == 1 and form.offset.each == 0 and form.exact:
            return self._atoms[form.terms[0][0]]
        level, varies = self.floor(form, domain.everyone)
        key = domain.key("sum", form.terms, domain.key_of(form.offset), form.exact)
        self._forms[key] = form
        why = next((self._atoms[term].why for term, _ in form.terms if self._atoms[term].why), "")
        atoms = (self._atoms[term] for term, _ in form.terms)
        value = domain.mark_across(Opaque(level, varies, key, why), form.offset, *atoms)
        return value if self._is_natural(form) else domain.mark_signed(value)

    def floor(self, form: Form, threads: int) -> tuple[Uniformity, bool]:
        """(uniformity, varies) of a form over a thread set."""
        atoms = [self._atoms[key] for key, _ in form.terms]
        return least(self._domain.floor(form.offset, threads), *((atom.uniformity, atom.varies) for atom in atoms))

    def restricted(self, value: Opaque, threads: int) -> Opaque:
        """The same unknown for a part of the block, where its offset may be constant."""
        form = self.sum_of(value)
        if form is None or isinstance(form.offset.each, int):
            return value
        if self._domain.level(form.offset, threads) != Uniformity.GRID:
            return value
        offset = self._domain.const(form.offset.at((threads & -threads).bit_length() - 1))
        built = self.build(Form(form.terms, offset, form.exact))
        return built if isinstance(built, Opaque) else value

    def cast(self, kind: str, value: Opaque, key: int) -> Opaque | None:
        """A conversion to an integer type; None where nothing is kept. `key` is for a result that may have wrapped."""
        form = self.form(value)
        if form is None or kind not in ("i32", "u32", "i64", "u64"):
            return None
        if kind in ("i32", "i64") or not self._domain.signed(value):
            return value
        self._forms[key] = Form(form.terms, form.offset, False)
        return self._domain.mark_across(Opaque(value.uniformity, value.varies, key, value.why), value)

    def _is_natural(self, form: Form) -> bool:
        domain = self._domain
        return not domain.signed(form.offset) and all(
            by > 0 and not domain.signed(self._atoms[key]) for key, by in form.terms
        )

    # --------------------------------------------------------------------------------------------- operators
    def binary(self, op: str, left: Value, right: Value) -> Value | None:
        """`left op right` where the forms say more than uniformity does; None elsewhere."""
        one, two = self.form(left), self.form(right)
        if one is None or two is None:
            return None
        if op in ("+", "-"):
            return self.build(self._add(one, two, 1 if op == "+" else -1))
        constant = two.offset.each if not two.terms else None
        if op == "*" and not one.terms:
            one, two, constant = two, one, one.offset.each
        if op in ("<", "<=", ">", ">=", "==", "!="):
            return self._compare(op, one, two) if one.exact and two.exact else None
        if not isinstance(constant, int):
            return None
        if op == "<<":
            return self.build(self._scale(one, 1 << constant)) if 0 <= constant <= 40 else None
        if op == "*":
            return self.build(self._scale(one, constant))
        if op == ">>":
            return self._divide(one, 1 << constant) if 0 <= constant <= 40 and one.exact else None
        if op == "/":
            return self._divide(one, constant) if constant > 0 and one.exact and self._is_natural(one) else None
        if op == "%":
            natural = constant > 0 and one.exact and self._is_natural(one)
            return self._remainder(op, one, constant) if natural else None
        if op == "&":
            return self._mask(left if two is not one and not two.terms else right, one, constant)
        return None

    def _add(self, one: Form, two: Form, sign: int) -> Form | None:
        """The sum or difference; None when an offset overflows."""
        terms = dict(one.terms)
        for key, by in two.terms:
            terms[key] = terms.get(key, 0) + sign * by
        offset = self._domain.binary("+" if sign > 0 else "-", one.offset, two.offset)
        if not isinstance(offset, Known):
            return None
        return Form(tuple(sorted((key, by) for key, by in terms.items() if by)), offset, one.exact and two.exact)

    def _scale(self, form: Form, by: int) -> Form | None:
        offset = self._domain.binary("*", form.offset, self._domain.const(by))
        if not isinstance(offset, Known):
            return None
        if by == 0:
            return Form((), offset)
        return Form(tuple((key, each * by) for key, each in form.terms), offset, form.exact)

    def _offset(self, offset: Known, change: str, by: int) -> Known:
        """Floor quotient or remainder of an offset."""
        each = offset.each
        domain = self._domain
        if isinstance(each, int):
            return domain.const(each // by if change == "//" else each % by)
        return domain.known([value // by if change == "//" else value % by for value in each])

    def _divide(self, form: Form, by: int) -> Value | None:
        common = gcd(by, *(each for _, each in form.terms))
        if common == 1:
            return None
        inner = self.build(
            Form(tuple((key, each // common) for key, each in form.terms), self._offset(form.offset, "//", common))
        )
        if inner is None or common == by:
            return inner
        # Nested floors are one floor; `>>` on what may be negative, `/` on what is not.
        rest = by // common
        if rest & (rest - 1) == 0:
            return self._domain.binary(">>", inner, self._domain.const(rest.bit_length() - 1))
        return self._domain.binary("/", inner, self._domain.const(rest))

    def _remainder(self, op: str, form: Form, by: int) -> Value | None:
        """`% by`, or the low bits below the power of two `by` for `&`."""
        domain = self._domain
        terms = tuple((key, each % by) for key, each in form.terms if each % by)
        offset = self._offset(form.offset, "%", by)
        if not terms:
            return offset
        common = gcd(by, *(each for _, each in terms))
        if common > 1:
            inner = self.build(
                Form(tuple((k, each // common) for k, each in terms), self._offset(offset, "//", common))
            )
            if inner is None:
                return None
            rest = by // common
            high = (
                domain.binary("%", inner, domain.const(rest))
                if op == "%"
                else domain.binary("&", inner, domain.const(rest - 1))
            )
            low = self._offset(offset, "%", common)
            return domain.binary("+", domain.binary("*", high, domain.const(common)), low)
        if terms == form.terms and offset.each == form.offset.each:
            return None
        reduced = self.build(Form(terms, offset))
        if reduced is None:
            return None
        return domain.generic(op, reduced, domain.const(by if op == "%" else by - 1))

    def _mask(self, value: Value, form: Form, mask: int) -> Value | None:
        domain = self._domain
        if mask > 0 and mask & (mask + 1) == 0:
            return self._remainder("&", form, mask + 1)
        dropped = ~mask if mask < 0 else mask ^ ((1 << max(32, mask.bit_length())) - 1)
        if dropped > 0 and dropped & (dropped + 1) == 0 and form.exact and (mask < 0 or mask.bit_length() in (32, 64)):
            return domain.binary("-", value, domain.binary("&", value, domain.const(dropped)))
        return None

    # ------------------------------------------------------------------------------------------- comparisons
    def _compare(self, op: str, one: Form, two: Form) -> Value | None:
        domain = self._domain
        difference = self._add(one, two, -1)
        if difference is None:
            return None
        if not difference.terms:
            return domain.binary(op, difference.offset, domain.const(0))
        if op in ("==", "!="):
            equal = self._equal(difference)
            return equal if equal is None or op == "==" else domain.unary("!", equal)
        # Everything becomes `d < 0` or its negation.
        if op in (">", "<="):
            difference = self._scale(difference, -1)
            if difference is None:
                return None
        below = self._below(difference)
        return below if below is None or op in ("<", ">") else domain.unary("!", below)

    def _below(self, form: Form) -> Value | None:
        common = gcd(*(each for _, each in form.terms))
        inner = self.build(
            Form(tuple((key, each // common) for key, each in form.terms), self._offset(form.offset, "//", common))
        )
        return None if inner is None else self._domain.generic("<", inner, self._domain.const(0))

    def _equal(self, form: Form) -> Value | None:
        domain = self._domain
        if form.terms[0][1] < 0:
            turned = self._scale(form, -1)
            if turned is None:
                return None
            form = turned
        common = gcd(*(each for _, each in form.terms))
        whole = self._offset(form.offset, "%", common)
        possible = domain.everyone & ~domain.mask(whole)
        if not possible:
            return domain.const(0)
        inner = self.build(
            Form(tuple((key, each // common) for key, each in form.terms), self._offset(form.offset, "//", common))
        )
        if inner is None:
            return None
        inner = domain.restrict(inner, possible)
        return domain.mix(possible, domain.generic("==", inner, domain.const(0)), domain.const(0))
