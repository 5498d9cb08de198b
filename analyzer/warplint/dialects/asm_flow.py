"""Dataflow inside one PTX text: results to operands, guards and branches to predicates, loops to blocking waits.

Values are `ast` expressions over `leaf.Operand`, `leaf.OpOutput` and `leaf.SpecialReg`; None stands for unknown.
Expressions are kept below `MAX_NODES` nodes, and texts with more than `MAX_STATEMENTS` instructions are not followed,
so that the work stays linear whatever the text is.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from warplint.dialects import mnemonics
from warplint.dialects.asm_loops import Branches
from warplint.dialects.asm_text import Arg, Imm, Mem, Not, Pair, Ref, Reg, Sink, Statement, Text, Vec, Word
from warplint.dialects.leaf import Operand, OpOutput
from warplint.dialects.ptx_arith import IMPURE
from warplint.dialects.ptx_values import NOWHERE, Mapped, compute, computed, is_boolean, negate, special, unknown
from warplint.syntax import ast

MAX_STATEMENTS = 2000


class Draft(Struct, frozen=True):
    """An operation before its operands are put in place."""

    name: str
    operands: Mapping[str, ast.Expr]
    mods: Mapping[str, str | int | bool]
    predicate: ast.Expr | None
    mnemonic: str
    outputs: tuple[str, ...]


class Shape(Struct, frozen=True):
    """All that an assembly text says by itself."""

    ops: tuple[Draft, ...]
    outputs: Mapping[int, ast.Expr]
    unknown: tuple[str, ...] = ()
    exits: bool = False
    traps: bool = False
    loops: bool = False


class Flow:
    """One pass over the statements in order."""

    def __init__(self, text: Text, names: tuple[str, ...], kept: tuple[bool, ...]) -> None:
        self.text = text
        self.names = {name: index for index, name in enumerate(names) if name}
        self.kept = kept
        self.outputs = len(kept)
        self.registers: dict[str, ast.Expr | None] = {}
        self.results: dict[int, ast.Expr | None] = {
            index: Operand(NOWHERE, index) if plus else None for index, plus in enumerate(kept)
        }
        self.written: set[int] = set()
        self.ops: list[Draft] = []
        self.unknown: list[str] = [text.trouble] if text.trouble else []
        self.exits = self.traps = False

    def run(self) -> Shape:
        """The shape of the text."""
        statements = self.text.statements
        if len(statements) > MAX_STATEMENTS:
            return Shape((), {}, (*self.unknown, "the assembly text is too long"))
        branches = Branches(statements)
        for index, statement in enumerate(statements):
            if statement.label:
                branches.arrive(statement.label)
                continue
            guard = None
            if statement.guard is not None:
                value = self.value(statement.guard[0])
                guard = (unknown("a predicate") if value is None else value, statement.guard[1])
            if statement.mnemonic.startswith("bra"):
                branches.leave(index, statement, guard)
                continue
            self.step(index, statement, guard, branches)
        if branches.trouble:
            self.unknown.append(branches.trouble)
        outputs: dict[int, ast.Expr] = {}
        for index, value in self.results.items():
            # `"+r"` that nothing wrote keeps its value (an empty text is such a fence for the compiler).
            if value is None or (index not in self.written and not self.kept[index]):
                continue
            if isinstance(value, Mapped):
                value = self.export(value)
            outputs[index] = value
        return Shape(
            tuple(branches.finish(self.ops)), outputs, tuple(self.unknown), self.exits, self.traps, branches.loops
        )

    def export(self, mapped: Mapped) -> ast.Expr:
        """A mapped address that leaves the assembly is the result of a `mapa` operation."""
        operands = {"src": mapped.address, "cta": mapped.cta}
        self.ops.append(Draft("mapa", operands, {}, None, "mapa", ("value",)))
        return OpOutput(NOWHERE, len(self.ops) - 1, "value")

    # ------------------------------------------------------------------------------------------- values
    def value(self, arg: Arg) -> ast.Expr | None:
        """What an argument evaluates to at this point."""
        if type(arg) is Ref:
            index = arg.key if isinstance(arg.key, int) else self.names.get(arg.key, -1)
            if index < 0:
                return None
            return self.results[index] if index < self.outputs else Operand(NOWHERE, index)
        if type(arg) is Reg:
            if arg.name in self.registers:
                return self.registers[arg.name]
            return special(arg.name)
        if type(arg) is Imm:
            return ast.Num(NOWHERE, arg.value)
        if type(arg) is Not:
            inner = self.value(arg.arg)
            return None if inner is None else negate(inner)
        if type(arg) is Mem:
            return self.address(arg)
        return None

    def address(self, mem: Mem) -> ast.Expr | None:
        """An address in bytes: the base, or the base as an integer plus the offsets."""
        base = self.value(mem.base)
        for sign, arg in mem.offsets:
            offset = self.value(arg)
            if base is None or offset is None:
                return None
            base = compute("add" if sign > 0 else "sub", (), [base, offset])
        return base

    def write(self, arg: Arg, value: ast.Expr | None, guard: tuple[ast.Expr, bool] | None) -> None:
        """Assigns a register or an output operand, under a guard."""
        if type(arg) is Reg:
            self.registers[arg.name] = self.merged(self.registers.get(arg.name), value, guard, undefined=True)
        elif type(arg) is Ref:
            index = arg.key if isinstance(arg.key, int) else self.names.get(arg.key, -1)
            if 0 <= index < self.outputs:
                self.results[index] = self.merged(self.results[index], value, guard, undefined=False)
                self.written.add(index)

    @staticmethod
    def merged(
        old: ast.Expr | None, new: ast.Expr | None, guard: tuple[ast.Expr, bool] | None, undefined: bool
    ) -> ast.Expr | None:
        """What a place holds after `new` was written to it under a guard."""
        if guard is None or new is None:
            return new if guard is None else None
        test, negated = guard
        if isinstance(old, ast.Cond) and old.test == test:
            return compute("select", (), [test, old.yes, new] if negated else [test, new, old.no])
        if old is None:
            # A register that was never set holds nothing a guarded reader could see; an output does.
            if undefined:
                return new
            old = unknown("an undefined output")
        return compute("select", (), [test, old, new] if negated else [test, new, old])

    # ------------------------------------------------------------------------------------- instructions
    def step(self, index: int, statement: Statement, guard: tuple[ast.Expr, bool] | None, branches: Branches) -> None:
        """One instruction."""
        form = mnemonics.describe(statement.mnemonic)
        if form is None:
            self.unknown.append(statement.mnemonic)
            for arg in statement.args[:1]:
                self.forget(arg)
            return
        if not form.op:
            self.arithmetic(statement, form, guard)
            return
        if form.fold == "mapa" and len(statement.args) == 3:
            source, cta = self.value(statement.args[1]), self.value(statement.args[2])
            mapped = Mapped(NOWHERE, source, cta) if source is not None and cta is not None else None
            self.write(statement.args[0], mapped, None if guard is None or mapped is None else guard)
            return
        self.operation(index, statement, form, guard, branches)

    def arithmetic(self, statement: Statement, form: mnemonics.Form, guard: tuple[ast.Expr, bool] | None) -> None:
        """Register arithmetic: the value where it is followed, else that it depends on its inputs alone."""
        if not statement.args:
            return
        target, *rest = statement.args
        inputs = [self.value(item) for arg in rest for item in _places(arg)]
        known = [item for item in inputs if item is not None]
        if isinstance(target, Vec) or len(known) < len(inputs):
            value = None
        elif form.fold == "cvta" and len(known) == 1:
            value = known[0]
        elif form.arith and not any(isinstance(arg, Vec) for arg in rest):
            value = compute(form.arith, tuple(statement.mnemonic.split(".")[1:]), known)
        else:
            value = None
        opaque = statement.mnemonic.partition(".")[0] in IMPURE or len(known) < len(inputs)
        for number, place in enumerate(_places(target)):
            result = value
            if value is None and not opaque:
                result = computed(f"{statement.mnemonic}.{number}" if number else statement.mnemonic, known)
            elif number and value is not None:  # `setp` delivers the opposite as well
                result = negate(value) if form.arith == "setp" else None
            self.write(place, result, guard)

    def forget(self, arg: Arg) -> None:
        """The places of an argument hold nothing known any more."""
        for item in _places(arg):
            self.write(item, None, None)

    def operation(
        self,
        index: int,
        statement: Statement,
        form: mnemonics.Form,
        guard: tuple[ast.Expr, bool] | None,
        branches: Branches,
    ) -> None:
        """One operation of the vocabulary."""
        if branches.path is None and form.op in ("thread.exit", "nanosleep"):
            return  # a time-out or a back-off between the tries of a blocking wait: the model has no failed tries
        operands: dict[str, ast.Expr] = {}
        mods = dict(form.mods)
        results: list[tuple[Arg, str]] = []
        taken = fit(form.layout, statement.args)
        if taken is None:
            self.unknown.append(statement.mnemonic + " with other operands than expected")
            for arg in statement.args[:1]:
                if not isinstance(arg, Mem):
                    self.forget(arg)
            return
        for slot, arg in taken:
            if slot[0] == "=":
                results.extend(_result_places(slot[1:], arg))
            elif slot == "map+":
                self.tensor(arg, operands)
            elif isinstance(arg, Vec):
                if slot == "value" and form.op == "st":
                    for position, item in enumerate(arg.items):
                        operands[f"value.{position}"] = self.operand(item, slot, operands, mods)
            elif slot != "*":
                operands[slot] = self.operand(arg, slot, operands, mods)
        if form.op == "cp.async" and "src_bytes" in operands and is_boolean(operands["src_bytes"]):
            del operands["src_bytes"]  # the predicate of the ignore-src form
        for role, constant in form.constants.items():
            operands.setdefault(role, ast.Num(NOWHERE, constant))
        if form.op == "thread.exit":
            self.exits = True
            self.traps = self.traps or bool(mods.get("trap"))
        number = len(self.ops)
        predicate = branches.predicate(guard)
        branches.note(number, index, form.op, mods)
        outputs = tuple(name for arg, name in results if not isinstance(arg, Sink))
        self.ops.append(Draft(form.op, operands, mods, predicate, statement.mnemonic, outputs))
        for arg, name in results:
            # A blocking wait leaves its loop only when it succeeded.
            if mods.get("blocking") and name == "value":
                value: ast.Expr = ast.Num(NOWHERE, 1)
            else:
                value = OpOutput(NOWHERE, number, name, is_truth(form, name))
            self.write(arg, value, guard)

    def operand(
        self, arg: Arg, role: str, operands: dict[str, ast.Expr], mods: dict[str, str | int | bool]
    ) -> ast.Expr:
        """The value for a role; a mapped address also gives the target CTA."""
        value = self.value(arg)
        if isinstance(value, Mapped):
            operands["cta"] = value.cta
            mods["remote"] = True
            return value.address
        return unknown(f"the {role} of the instruction") if value is None else value

    def tensor(self, arg: Arg, operands: dict[str, ast.Expr]) -> None:
        """`[map, {coordinates}]`."""
        if not isinstance(arg, Mem):
            operands["map"] = unknown("the tensor map")
            return
        base = self.value(arg.base)
        operands["map"] = unknown("the tensor map") if base is None else base
        for position, coordinate in enumerate(arg.coords):
            value = self.value(coordinate)
            operands[f"coords.{position}"] = unknown("a coordinate") if value is None else value


_TRUTHS = frozenset({"elect.sync", "mbarrier.try_wait", "mbarrier.test_wait"})


def is_truth(form: mnemonics.Form, output: str) -> bool:
    """True for results that are predicates."""
    if output == "value":
        return (
            form.op in _TRUTHS
            or form.mods.get("mode") in ("all", "any", "uni")
            or form.mods.get("kind") == "is_canceled"
        )
    return output in ("inbounds", "all", "pred")


def _result_places(names: str, arg: Arg) -> list[tuple[Arg, str]]:
    first, _, second = names.partition("|")
    if isinstance(arg, Pair):
        return [(arg.left, first), (arg.right, second or "pred")]
    if isinstance(arg, Vec):
        return [(item, first if number == 0 else f"{first}.{number}") for number, item in enumerate(arg.items)]
    return [(arg, first)]


def _places(arg: Arg) -> tuple[Arg, ...]:
    if isinstance(arg, Pair):
        return (arg.left, arg.right)
    return arg.items if isinstance(arg, Vec) else (arg,)


def fit(layout: tuple[str, ...], args: tuple[Arg, ...]) -> list[tuple[str, Arg]] | None:
    """Arguments by slot, None when they do not fit the layout."""
    taken: list[tuple[str, Arg]] = []
    required = sum(1 for slot in layout if slot[-1] != "?")
    at, size = 0, len(args)
    for slot in layout:
        optional = slot[-1] == "?"
        if not optional:
            required -= 1
        if at >= size:
            if optional or slot[0] == "=":
                continue
            return None
        arg = args[at]
        if optional and size - at <= required:
            continue
        name = slot[:-1] if optional else slot
        if name[0] == "=":
            if isinstance(arg, Mem):  # `mbarrier.arrive [addr]` without the sink
                continue
        elif "/" in name:
            first, _, second = name.partition("/")
            name = first[1:-1] if _is(first, arg) else second
        elif name[0] in "[{":
            if not _is(name, arg):
                if optional:
                    continue
                if name[0] == "{":
                    return None
            name = name[1:-1]
        elif isinstance(arg, Word) and name != "*":
            taken.append((name, arg))
            at += 1
            continue
        taken.append((name, arg))
        at += 1
    return taken if at == size else None


def _is(slot: str, arg: Arg) -> bool:
    return isinstance(arg, Mem) if slot[0] == "[" else isinstance(arg, Vec)
