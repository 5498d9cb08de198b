"""First words of PTX instructions that compute in registers, hint the caches, or measure: they synchronise nothing."""

FOLLOWED = frozenset(
    ("mov", "selp", "and", "or", "xor", "not", "add", "sub", "shl", "shr", "min", "max", "cvt", "rem", "div")
)
"""Of these, integer and predicate results are followed (`ptx_values`)."""

IMPURE = frozenset(("tex", "tld4", "txq", "suq", "istypep", "alloca", "stacksave", "stackrestore"))
"""Results that depend on more than the operands."""

_INTEGER = ("abs", "neg", "mul", "mul24", "mad", "mad24", "sad", "dp4a", "dp2a", "addc", "subc", "madc")
_BITS = ("cnot", "lop3", "shf", "bfe", "bfi", "bfind", "fns", "brev", "clz", "popc", "szext", "prmt", "bmsk")
_FLOAT = ("fma", "sqrt", "rcp", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "testp", "copysign")
_VIDEO = (
    "vadd",
    "vsub",
    "vabsdiff",
    "vmin",
    "vmax",
    "vshl",
    "vshr",
    "vmad",
    "vset",
    "vadd2",
    "vsub2",
    "vadd4",
    "vsub4",
)
_OTHER = ("setp", "set", "slct", "cvta", "cvtpack", "isspacep", "getctarank", "createpolicy")
_HINTS = ("discard", "applypriority", "pmevent")

ARITHMETIC = FOLLOWED | IMPURE | frozenset(_INTEGER + _BITS + _FLOAT + _VIDEO + _OTHER + _HINTS)
