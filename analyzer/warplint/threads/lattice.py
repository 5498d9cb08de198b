"""The abstract domain: what a value is for all threads of one block at once, and how values combine.

To the four kinds of `facts.Value` this adds `Mix`, a value of different kinds for different threads (what a variable
holds after one role has changed it). Values are built through a `Lattice` (with the operators of `domain`), which
remembers results by the *identity* of the operands: generated kernels evaluate the same guard hundreds of times, and
then each costs a dictionary look-up.

Soundness of two things is easy to lose. A `Known` inside a `Mix` is meaningful for its own threads only, so everything
that looks at it takes the thread set of interest. And an `Opaque.key` promises equality in every thread, so whatever
may be re-read with another result (a load, an operation) gets a fresh key.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from warplint.threads import bits
from warplint.threads.facts import Elected, Known, Opaque, Pointer, Uniformity, Value

MAX_PARTS = 12
"""A `Mix` of more kinds than this becomes `Opaque`."""

GRID = Uniformity.GRID
CTA = Uniformity.CTA
LANE = Uniformity.LANE


def least(*floors: tuple[Uniformity, bool]) -> tuple[Uniformity, bool]:
    """The floor of what depends on several values: it varies between the finest groups only if one of those does."""
    level = min([GRID, *(of for of, _ in floors)])
    return level, level < CTA and any(varies for of, varies in floors if of == level)


class Mix(Value, frozen=True, eq=False):
    """Different kinds of value for different threads: disjoint sets that cover the block, at most one `Known`."""

    parts: tuple[tuple[int, Value], ...]


class Choice(Struct, frozen=True):
    """An unknown that is one of two known values, by an unknown condition."""

    yes: Known
    no: Known
    by: Uniformity
    varies: bool
    key: object
    """What identifies the condition, None when nothing does."""


class Lattice:
    """Values over the threads of one block, with all results remembered."""

    def __init__(self, threads: int, warp_size: int) -> None:
        self.threads = threads
        self.warp_size = warp_size
        self.everyone = bits.full(threads)
        self._consts: dict[int, Known] = {}
        self._keys: dict[object, int] = {}
        self._negated: dict[int, int] = {}
        self._boolean: set[int] = set()
        self._signed: set[int] = set()
        self._across: set[int] = set()
        self._choices: dict[int, Choice] = {}
        self._repeating: dict[tuple[int, int], tuple[Known, bool]] = {}
        self._next_key = 1
        self._memo: dict[tuple[object, ...], tuple[Value, tuple[Value, ...]]] = {}
        self._masks: dict[int, tuple[Known, int]] = {}
        self._levels: dict[tuple[int, int], tuple[Known, Uniformity]] = {}

    # ------------------------------------------------------------------------------------------ construction
    def const(self, value: int) -> Known:
        """One integer for all threads."""
        known = self._consts.get(value)
        if known is None:
            known = self._consts[value] = Known(value)
        return known

    def known(self, each: list[int] | tuple[int, ...]) -> Known:
        """One integer per thread."""
        first = each[0]
        if each.count(first) == len(each):
            return self.const(first)
        return Known(tuple(each))

    def fresh(self, uniformity: Uniformity, varies: bool = False, why: str = "") -> Opaque:
        """An unknown equal to no other."""
        self._next_key += 1
        return Opaque(uniformity, varies and uniformity < CTA, self._next_key, why)

    def key(self, *parts: object) -> int:
        """One key per distinct combination of operator and operand keys."""
        key = self._keys.get(parts)
        if key is None:
            self._next_key += 1
            key = self._keys[parts] = self._next_key
        return key

    def named(self, name: str, uniformity: Uniformity, varies: bool = False) -> Opaque:
        """The unknown of that name (a special register, a kernel argument): always the same."""
        return Opaque(uniformity, varies and uniformity < CTA, self.key("name", name), name)

    def signed(self, value: Value) -> bool:
        """Whether a value may be negative; unknowns from outside (arguments, loads) are taken not to be."""
        if isinstance(value, Known):
            return value.each < 0 if isinstance(value.each, int) else min(value.each) < 0
        if isinstance(value, Mix):
            return any(self.signed(part) for _, part in value.parts)
        return isinstance(value, Opaque) and value.key in self._signed

    def mark_signed(self, value: Opaque, *operands: Value) -> Opaque:
        """Notes that a value may be negative when one of its operands may."""
        if isinstance(value.key, int) and (not operands or any(self.signed(each) for each in operands)):
            self._signed.add(value.key)
        return value

    def across(self, value: Value, threads: int) -> bool:
        """Whether it is established that a value may differ between warps even at the same lane.

        A value that only depends on the lane (`data[lane]`) varies, but every warp holds the same ones: what a warp
        makes of them together (a vote, a reduction) is then the same in all warps.
        """
        if isinstance(value, Known):
            return not isinstance(value.each, int) and not self._repeats(value, threads)
        if isinstance(value, Mix):
            return any(self.across(part, mask) for mask, part in self.parts(value, threads))
        if isinstance(value, Pointer):
            return self.across(value.offset, threads)
        if not isinstance(value, Opaque) or not value.varies:
            return False
        return value.uniformity > LANE or value.key in self._across

    def mark_across(self, value: Opaque, *operands: Value) -> Opaque:
        """Notes that a value may differ between warps when one of its operands may."""
        if value.varies and isinstance(value.key, int) and any(self.across(each, self.everyone) for each in operands):
            self._across.add(value.key)
        return value

    def _repeats(self, value: Known, threads: int) -> bool:
        """Whether each warp holds the same values at the same lanes."""
        held = self._repeating.get((id(value), threads))
        if held is None:
            size, each, found = self.warp_size, value.each, dict[int, int]()
            assert isinstance(each, tuple)
            lanes = ((thread % size, each[thread]) for thread in bits.members(threads))
            same = all(found.setdefault(lane, number) == number for lane, number in lanes)
            held = self._repeating[id(value), threads] = (value, same)
        return held[1]

    # ------------------------------------------------------------------------------------------- inspection
    def mask(self, value: Known) -> int:
        """The threads for which it is non-zero."""
        each = value.each
        if isinstance(each, int):
            return self.everyone if each else 0
        held = self._masks.get(id(value))
        if held is None:
            held = self._masks[id(value)] = (value, bits.of_truths(each))
        return held[1]

    def level(self, value: Known, threads: int) -> Uniformity:
        """Over which groups of `threads` a known value is constant."""
        each = value.each
        if isinstance(each, int) or threads & (threads - 1) == 0:
            return GRID
        held = self._levels.get((id(value), threads))
        if held is None:
            held = self._levels[id(value), threads] = (value, self._level(each, threads))
        return held[1]

    def _level(self, each: tuple[int, ...], threads: int) -> Uniformity:
        first = each[(threads & -threads).bit_length() - 1]
        level = GRID
        size = self.warp_size
        group_value: dict[int, int] = {}
        for start in range(0, self.threads, size):
            lanes = threads >> start & bits.full(size)
            if not lanes:
                continue
            if lanes == bits.full(size):
                part = each[start : start + size]
                value = part[0]
                if part.count(value) != len(part):
                    return LANE
            else:
                values = {each[start + lane] for lane in bits.members(lanes)}
                if len(values) > 1:
                    return LANE
                value = values.pop()
            if value != first:
                level = min(level, Uniformity.WARPGROUP)
            if group_value.setdefault(start // (size * bits.WARPS_PER_GROUP), value) != value:
                level = Uniformity.WARP
        return level

    def parts(self, value: Value, threads: int) -> list[tuple[int, Value]]:
        """The homogeneous parts of a value over a non-empty thread set."""
        if not isinstance(value, Mix):
            return [(threads, value)]
        return [(mask & threads, part) for mask, part in value.parts if mask & threads]

    def restrict(self, value: Value, threads: int) -> Value:
        """The simplest value that is right for these threads; for others nothing is claimed."""
        if isinstance(value, Mix):
            left = self.parts(value, threads)
            if len(left) > 1:
                return value
            value = left[0][1]
        if isinstance(value, Known):
            if isinstance(value.each, tuple) and self.level(value, threads) == GRID:
                return self.const(value.each[(threads & -threads).bit_length() - 1])
        elif isinstance(value, Pointer):
            offset = self.restrict(value.offset, threads)
            return value if offset is value.offset else replace(value, offset=offset)
        return value

    def floor(self, value: Value, threads: int) -> tuple[Uniformity, bool]:
        """(uniformity, varies) over a thread set."""
        if isinstance(value, Known):
            level = self.level(value, threads)
            return level, level < CTA
        if isinstance(value, Opaque):
            return value.uniformity, value.varies
        if isinstance(value, Pointer):
            offset = self.floor(value.offset, threads)
            return offset if value.cta is None else least(offset, self.floor(value.cta, threads))
        if isinstance(value, Elected):
            return LANE, True
        floors: list[tuple[Uniformity, bool]] = []
        for mask, part in self.parts(value, threads):
            floors += (self.floor(part, mask), (bits.cut(mask, threads, self.warp_size), True))
        return least(*floors)

    def key_of(self, value: Value) -> object:
        """Something hashable that stands for the value, None when it has no identity."""
        if isinstance(value, Known):
            return value.each if isinstance(value.each, int) else ("each", self.key(value.each))
        if isinstance(value, Opaque):
            return None if value.key is None else ("opaque", value.key)
        if isinstance(value, Pointer) and value.cta is None:
            offset = self.key_of(value.offset)
            return None if offset is None else ("pointer", id(value.symbol), offset)
        if isinstance(value, Elected):
            return ("elected", value.key)
        return None

    def same(self, left: Value, right: Value) -> bool:
        """Certainly equal in every thread."""
        if left is right:
            return True
        if type(left) is not type(right):
            return False
        if isinstance(left, Known):
            return left.each == right.each  # type: ignore[union-attr]
        if isinstance(left, Mix):
            return False
        key = self.key_of(left)
        return key is not None and key == self.key_of(right)

    def truth_key(self, value: Value) -> tuple[int, bool] | None:
        """(key, polarity) of an unknown condition: conditions with one key and opposite polarity exclude each other."""
        if not isinstance(value, Opaque) or not isinstance(value.key, int):
            return None
        key, polarity = value.key, True
        while key in self._negated:
            key, polarity = self._negated[key], not polarity
        return key, polarity

    # -------------------------------------------------------------------------------------------- combining
    def mix(self, mask: int, yes: Value, no: Value) -> Value:
        """`yes` for the threads of `mask`, `no` for the others."""
        mask &= self.everyone
        if mask == 0 or yes is no:
            return no
        if mask == self.everyone:
            return yes
        held = self._memo.get(("mix", mask, id(yes), id(no)))
        if held is not None:
            return held[0]
        pieces = self.parts(yes, mask) + self.parts(no, self.everyone & ~mask)
        return self._remember(("mix", mask, id(yes), id(no)), self.gather(pieces), yes, no)

    def gather(self, pieces: Iterable[tuple[int, Value]]) -> Value:
        """One value from disjoint parts that cover the block; known parts are merged, and pointers into one symbol."""
        known: list[tuple[int, Known]] = []
        pointers: dict[int, list[tuple[int, Pointer]]] = {}
        others: list[tuple[int, Value]] = []
        for mask, value in pieces:
            if isinstance(value, Known):
                known.append((mask, value))
            elif isinstance(value, Pointer) and value.cta is None:
                pointers.setdefault(id(value.symbol), []).append((mask, value))
            else:
                for index, (seen, other) in enumerate(others):
                    if self.same(value, other):
                        others[index] = (seen | mask, other)
                        break
                else:
                    others.append((mask, value))
        result: list[tuple[int, Value]] = []
        if known:
            result.append(self._gather_known(known))
        for group in pointers.values():
            if len(group) == 1:
                result.append(group[0])
                continue
            covered = 0
            for mask, _ in group:
                covered |= mask
            offsets = [(mask, pointer.offset) for mask, pointer in group]
            rest = self.everyone & ~covered
            if rest:
                offsets[0] = (offsets[0][0] | rest, offsets[0][1])
            result.append((covered, Pointer(group[0][1].symbol, self.gather(self._flat(offsets)))))
        result += others
        if len(result) == 1:
            return result[0][1]
        if len(result) > MAX_PARTS:
            level, varies = self.floor(Mix(tuple(result)), self.everyone)
            return self.fresh(level, varies, "takes many forms")
        return Mix(tuple(result))

    def _flat(self, pieces: list[tuple[int, Value]]) -> list[tuple[int, Value]]:
        return [part for mask, value in pieces for part in self.parts(value, mask)]

    def _gather_known(self, known: list[tuple[int, Known]]) -> tuple[int, Known]:
        covered = 0
        for mask, _ in known:
            covered |= mask
        first = known[0][1]
        if all(value is first for _, value in known):
            return covered, first
        # Outside `covered` nothing is claimed; there the first value stands.
        each = list(first.each) if isinstance(first.each, tuple) else [first.each] * self.threads
        for mask, value in known[1:]:
            of = value.each
            if isinstance(of, int):
                for thread in bits.members(mask):
                    each[thread] = of
            else:
                for thread in bits.members(mask):
                    each[thread] = of[thread]
        return covered, self.known(each)

    def join(self, left: Value, right: Value, by: Uniformity, varies: bool, key: object = None) -> Value:
        """What holds after an unknown choice (uniform over `by`) between two values."""
        if left is right or self.same(left, right):
            return left
        if key is None:
            return self._join(left, right, by, varies, None)
        memo = ("join", id(left), id(right), by, varies, key)
        held = self._memo.get(memo)
        return self._remember(memo, self._join(left, right, by, varies, key), left, right) if held is None else held[0]

    def _join(self, left: Value, right: Value, by: Uniformity, varies: bool, key: object) -> Value:
        if isinstance(left, Mix) or isinstance(right, Mix):
            pieces = []
            for mask, one in self.parts(left, self.everyone):
                for part, two in self.parts(right, mask):
                    pieces.append((part, self.join(one, two, by, varies, key)))
            return self.gather(self._flat(pieces))
        if (
            isinstance(left, Pointer)
            and isinstance(right, Pointer)
            and left.symbol is right.symbol
            and left.cta is right.cta
        ):
            return replace(left, offset=self.join(left.offset, right.offset, by, varies, key))
        level, vary = least(self.floor(left, self.everyone), self.floor(right, self.everyone), (by, varies))
        why = next((v.why for v in (left, right) if isinstance(v, Opaque) and v.why), "set under an unknown condition")
        left_key, right_key = self.key_of(left), self.key_of(right)
        if key is None or left_key is None or right_key is None:
            chosen = self.fresh(level, vary, why)
        else:
            chosen = Opaque(level, vary, self.key("choose", key, left_key, right_key), why)
        if isinstance(left, Known) and isinstance(right, Known) and isinstance(chosen.key, int):
            self._choices[chosen.key] = Choice(left, right, by, varies, key)
        if isinstance(key, tuple) and key[0] == "opaque" and key[1] in self._across and isinstance(chosen.key, int):
            self._across.add(chosen.key)
        return self.mark_signed(self.mark_across(chosen, left, right), left, right)

    def choose(self, test: Value, yes: Value, no: Value, threads: int) -> Value:
        """`test ? yes : no` for a set of threads, exact where the test is known."""
        if yes is no:
            return yes
        pieces: list[tuple[int, Value]] = []
        for mask, part in self.parts(test, self.everyone):
            if isinstance(part, Known):
                truth = self.mask(part) & mask
                if truth:
                    pieces += self.parts(yes, truth)
                if mask & ~truth:
                    pieces += self.parts(no, mask & ~truth)
            elif isinstance(part, Pointer):
                pieces += self.parts(yes, mask)
            elif isinstance(part, Elected) and self._is_flag(yes, no):
                pieces.append((mask, part))
            else:
                level, varies = self.floor(part, mask)
                pieces += self.parts(self.join(yes, no, level, varies, self.key_of(part)), mask)
        return self.gather(pieces)

    @staticmethod
    def _is_flag(yes: Value, no: Value) -> bool:
        return isinstance(yes, Known) and yes.each == 1 and isinstance(no, Known) and no.each == 0

    def _remember(self, key: tuple[object, ...], value: Value, *kept: Value) -> Value:
        self._memo[key] = (value, kept)
        return value
