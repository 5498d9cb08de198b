"""What the variables hold at the head of any iteration of a loop: guesses, and whether an iteration respects them."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from msgspec.structs import replace

from warplint.program.ir import Binary, Cast, Element, Var
from warplint.threads.domain import CTA, LANE, least
from warplint.threads.evaluate import Key
from warplint.threads.facts import Known, Opaque, Pointer, Value
from warplint.threads.flow import Flow
from warplint.threads.interpret import Interpreter
from warplint.threads.needs import LoopNeeds

WHY = "changes in a loop"


class Head:
    """The values at the head of a loop, for the variables that it writes.

    A guess is as uniform as the initial value, or `initial + step * n` for what the loop counts up. `settle` lowers it
    to what an iteration really leaves; threads for which a variable does not change keep their initial value.
    """

    def __init__(self, run: Interpreter, needs: LoopNeeds, flow: Flow) -> None:
        self._run = run
        self._needs = needs
        self._flow = flow
        env = run.env
        self.initial: dict[Key, Value] = {}
        for symbol in needs.written:
            if symbol in run.needs.symbols:
                for key in env.keys_of(symbol):
                    if key in env.values:
                        self.initial[key] = env.values[key]
                    elif symbol.kind == "param" and key is symbol:
                        self.initial[key] = run.eval.current(key)
        self.values: dict[Key, Value] = dict(self.initial)
        self._counted: dict[int, int] = {}
        """Guesses of the form `initial + step * n`, by key: the step."""

    def guess(self) -> None:
        """Starts with the most that could hold."""
        self.values = {key: self._first_guess(key, value) for key, value in self.initial.items()}

    def start_over(self) -> None:
        """Goes back to the initial values (there is no second iteration)."""
        self.values = dict(self.initial)

    def set(self) -> None:
        """Puts the values into the environment."""
        for key, value in self.values.items():
            self._run.env.set(key, value)

    def give_up(self) -> None:
        """Lets every variable hold anything."""
        domain = self._run.domain
        for key, value in self.values.items():
            _, varies = domain.floor(value, self._flow.reach.threads)
            self.values[key] = domain.mark_signed(domain.mark_across(domain.fresh(LANE, varies, WHY), value))

    def settle(self, ends: Mapping[Key, Value], threads: int) -> bool:
        """Whether the values at the end of an iteration respect the guess; lowers or refines it where they do not."""
        domain = self._run.domain
        good = True
        for key, head in self.values.items():
            end = ends.get(key, head)
            if end is head:
                if head is not self.initial[key]:
                    self.values[key], good = self.initial[key], False
                continue
            pieces: list[tuple[int, Value]] = []
            for mask, part in domain.parts(end, threads):
                for inner, own in domain.parts(head, mask):
                    initial = domain.restrict(self.initial[key], inner)
                    if domain.same(part, own):
                        pieces += domain.parts(initial, inner)
                        if not domain.same(own, initial) and own is not initial:
                            good = False
                        continue
                    piece, fine = self._changed(inner, own, part, initial)
                    good = good and fine
                    pieces += domain.parts(piece, inner)
            rest = domain.everyone & ~threads
            if rest:
                pieces += domain.parts(self.initial[key], rest)
            if not good:
                self.values[key] = domain.gather(pieces)
        return good

    def _first_guess(self, key: Key, value: Value) -> Value:
        """`initial + step * n` for what the loop counts up; any value of the initial uniformity for the rest."""
        domain, threads = self._run.domain, self._flow.reach.threads
        value = domain.restrict(value, threads)
        step = self._step(key)
        if step and isinstance(value, (Known, Opaque)):
            if step > 1 or domain.floor(value, threads)[0] < CTA:
                times = domain.binary("*", domain.fresh(CTA, why=WHY), domain.const(step))
                guess = domain.binary("+", value, times)
                if isinstance(guess, Opaque) and isinstance(guess.key, int):
                    self._counted[guess.key] = step
                return guess
        return self._guess(value)

    def _step(self, key: Key) -> int:
        """What a loop adds to a variable is a multiple of this; 0 when it does more than add, at one place."""
        symbol = key[0] if isinstance(key, tuple) else key
        if self._needs.written.get(symbol) != 1:
            return 0
        for assign in self._needs.assigns:
            if assign.symbol is symbol:
                expr = assign.value.expr
                while isinstance(expr, Cast):
                    expr = expr.arg
                if not isinstance(expr, Binary) or expr.op != "+":
                    return 0
                own = expr.left
                while isinstance(own, Cast):
                    own = own.arg
                if not isinstance(own, (Var, Element)) or own.symbol is not symbol:
                    return 0
                form = self._run.domain.affine.form(self._run.eval.value(expr.right, self._flow))
                offset = None if form is None else form.offset.constant
                if form is None or offset is None:
                    return 1
                return max(1, gcd(offset, *(by for _, by in form.terms)))
        return 0

    def _guess(self, value: Value) -> Value:
        """A value of any iteration that is as uniform as the initial one."""
        domain, threads = self._run.domain, self._flow.reach.threads
        value = domain.restrict(value, threads)
        if isinstance(value, Pointer) and value.cta is None:
            return replace(value, offset=self._guess(value.offset))
        level, varies = domain.floor(value, threads)
        return self._like(domain.fresh(level, varies, WHY), value)

    def _like(self, fresh: Opaque, *values: Value) -> Opaque:
        return self._run.domain.mark_signed(self._run.domain.mark_across(fresh, *values), *values)

    def _changed(self, mask: int, head: Value, end: Value, initial: Value) -> tuple[Value, bool]:
        """The head value for threads that change it, and whether the present one is good enough."""
        domain = self._run.domain
        if isinstance(head, Pointer) and isinstance(end, Pointer) and head.symbol is end.symbol and head.cta is end.cta:
            offset, fine = self._changed(
                mask, head.offset, end.offset, initial.offset if isinstance(initial, Pointer) else initial
            )
            return (head if fine else replace(head, offset=offset)), fine
        if isinstance(head, Opaque) and isinstance(head.key, int) and head.key in self._counted:
            if self._advances(head, end, mask, self._counted[head.key]):
                return head, True
            return self._guess(initial), False
        end = domain.restrict(end, mask)
        level, varies = least(domain.floor(end, mask), domain.floor(domain.restrict(initial, mask), mask))
        signed = domain.signed(end) or domain.signed(domain.restrict(initial, mask))
        if isinstance(head, Opaque):
            sign_holds = not signed or domain.signed(head)
            says_so = head.uniformity < level or head.varies or not varies
            if sign_holds and head.uniformity <= level and says_so:
                return head, True
            level, varies = least((level, varies), (head.uniformity, head.varies))
        why = end.why if isinstance(end, Opaque) and end.why else WHY
        value = domain.mark_across(domain.fresh(level, varies, why), end, domain.restrict(initial, mask))
        return (domain.mark_signed(value) if signed else value), False

    def _advances(self, head: Opaque, end: Value, mask: int, step: int) -> bool:
        """Whether an iteration adds the same multiple of `step` for the whole block."""
        domain = self._run.domain
        added = domain.restrict(domain.binary("-", end, head), mask)
        form = domain.affine.form(added)
        if form is None or domain.floor(added, mask)[0] < CTA or domain.signed(added):
            return False
        offset = form.offset.constant
        return offset is not None and offset % step == 0 and all(by % step == 0 for _, by in form.terms)
