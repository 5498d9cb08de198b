"""Functions of CUDA, HIP and C++ that no synchronisation depends on: what evaluates, what reads, what is harmless."""

from __future__ import annotations

from warplint.patterns import late

IDENTITY = frozenset({
    "__cvta_generic_to_shared", "__cvta_shared_to_generic", "__cvta_generic_to_global", "__cvta_global_to_generic",
    "__builtin_expect", "move", "forward", "as_const", "__builtin_assume_aligned", "to_address",
    "cast_smem_ptr_to_uint", "__nvvm_get_smem_pointer", "launder", "raw_pointer_cast",
})  # fmt: skip
"""Give their first argument back: an address keeps its region."""

LOADS = frozenset({"__ldg", "__ldca", "__ldcg", "__ldcs", "__ldcv", "__ldlu", "__builtin_nontemporal_load"})
"""Read memory through their first argument (CUDA C++ Programming Guide, load functions using cache hints)."""

STORES = frozenset({"__stwb", "__stcg", "__stcs", "__stwt"})
"""Write their second argument through their first (CUDA C++ Programming Guide, store functions using cache hints)."""

ATOMICS = late(
    r"(?:unsafe)?atomic(?:Add|Sub|Exch|Min|Max|Inc|Dec|CAS|And|Or|Xor)(?:_block|_system|_noret)?"
    r"|__hip_atomic_(?:store|exchange|fetch_\w+|compare_exchange_\w+)|__nv_atomic_(?:store|exchange|fetch_\w+)\w*"
    r"|__atomic_(?:store|exchange|fetch|add|sub|compare_exchange)\w*|__builtin_amdgcn_(?:global|flat|ds)_atomic_\w+"
)
"""Read-modify-write through their first argument."""

COPIES = frozenset({"memcpy", "memset", "memmove", "__builtin_memcpy", "__builtin_memset"})

NOTHING = frozenset({
    "assert", "static_assert", "printf", "__builtin_assume", "__assume", "assume", "__builtin_unreachable", "puts",
    "CUTE_STATIC_ASSERT", "CUTE_STATIC_ASSERT_V", "TORCH_CHECK", "__prof_trigger",
    "CUTE_UNROLL", "CUTLASS_PRAGMA_UNROLL", "_Pragma", "__pragma", "__builtin_prefetch", "prefetch", "DEVICE_ASSERT",
    "KERNEL_ASSERT", "CUDA_KERNEL_ASSERT", "CUDA_KERNEL_ASSERT2", "__assert_fail", "likely", "unlikely",
})  # fmt: skip
"""No value and no effect that matters."""

TRAPS = frozenset({"__trap", "abort", "__builtin_trap", "__builtin_amdgcn_endpgm", "__brkpt"})
"""The thread does not come back."""

KEYWORDS = frozenset(
    [
        "if",
        "for",
        "while",
        "switch",
        "return",
        "sizeof",
        "alignof",
        "alignas",
        "catch",
        "do",
        "else",
        "case",
        "new",
        "delete",
        "typeid",
        "defined",
        "decltype",
        "noexcept",
        "static_cast",
        "reinterpret_cast",
        "const_cast",
        "dynamic_cast",
        "__attribute__",
        "__launch_bounds__",
        "__align__",
        "__declspec",
        "throw",
        "operator",
        "and",
        "or",
        "not",
        "requires",
        "typename",
        "template",
        "constexpr",
        "explicit",
        "__cluster_dims__",
        "__block_size__",
        "__maxnreg__",
        "using",
        "pragma",
        "void",
        "int",
        "float",
        "double",
        "bool",
        "char",
        "short",
        "long",
        "unsigned",
        "signed",
        "half",
        "auto",
        "const",
        "public",
        "private",
        "extern",
        "static",
        "__restrict__",
        "__global__",
        "__device__",
        "__host__",
        "__shared__",
        "__forceinline__",
        "this",
    ]
)
"""Words before a parenthesis that are no callee."""

_CONVERSIONS = (
    "make_", "__float", "__int2", "__uint2", "__ll2", "__ull2", "__double", "__half", "__bfloat", "__low", "__high",
    "__ushort", "__short", "__nv_cvt", "__nv_fp", "__h2", "__hip_cvt", "__hip_bfloat", "__internal_",
    "__builtin_bit_cast", "__builtin_amdgcn_cvt", "__builtin_amdgcn_perm", "__builtin_amdgcn_fmed",
    "__builtin_amdgcn_exp", "__builtin_amdgcn_rcp", "__builtin_amdgcn_rsq", "__builtin_amdgcn_log",
    "__builtin_amdgcn_sqrt", "__builtin_amdgcn_ubfe",
    "__builtin_amdgcn_sbfe", "__builtin_amdgcn_alignb", "__builtin_amdgcn_fdot", "__builtin_amdgcn_sdot",
    "__builtin_elementwise", "__builtin_fma", "__builtin_sqrt", "__builtin_exp", "__builtin_fabs", "__builtin_shuffle",
    "__builtin_convertvector", "__builtin_nan", "__builtin_inf", "__builtin_huge", "__builtin_is", "__builtin_popc",
    "__builtin_clz", "__builtin_ctz", "__builtin_ffs", )  # fmt: skip
_MATH = late(
    r"(?:__|h|h2|std::|::)?(?:sqrt|rsqrt|cbrt|rcbrt|exp|exp2|exp10|expm1|ex2|log|log2|log10|log1p|pow|powi|fabs|abs|labs|llabs|max|min|fmax|"
    r"fmin|fma|fmaf|mad|fmod|remainder|floor|ceil|trunc|round|lround|rint|nearbyint|llrint|tanh|sinh|cosh|tan|sin|cos|asin|"
    r"acos|atan|atan2|sinpi|cospi|erf|erfc|erfinv|erfcinv|lgamma|tgamma|normcdf|copysign|signbit|isnan|isinf|isfinite|"
    r"fdim|hypot|ldexp|scalbn|ilogb|saturate|fdivide|fdividef|rcp|div|mul24|umul24|mulhi|umulhi|mul64hi|umul64hi|umin|umax|llmin|"
    r"llmax|ullmin|ullmax|hadd|uhadd|rhadd|urhadd|popc|popcll|clz|clzll|ffs|ffsll|brev|brevll|byte_perm|fns|sad|usad|dp2a|dp4a|"
    r"funnelshift_[lr]c?|float_as_int|int_as_float|float_as_uint|uint_as_float|double_as_longlong|longlong_as_double|"
    r"norm3df|norm4df|rnorm3df|nan|nanf|j0|j1|y0|y1|clamp|ceil_div|numeric_limits|quiet_NaN|infinity|epsilon|"
    r"sub|add|mul|neg|bit_cast|bit_width|has_single_bit|countl_zero|countr_zero|popcount)(?:f|l|d|_r[nzudad]?|_sat|_ftz)*(?:16|32|64|2|4)?"
)
_HALF = late(
    r"__h(?:add|sub|mul|fma|neg|abs|div|max|min|eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|isnan|isinf|cmadd|add_rn|"
    r"mul_rn|sub_rn|fma_relu|max_nan|min_nan|badd2|beq2|bge2|bgt2|ble2|blt2|bne2)\w*|__(?:f|d)(?:add|sub|mul|fma|maf|div|sqrt|rcp|rsqrt)\w*"
    r"|__v(?:abs|add|sub|max|min|avg|cmp|set|neg|i|sad|had)\w*|h(?:exp|log|sqrt|rsqrt|rcp|sin|cos|floor|ceil|trunc|rint)\w*"
    r"|h2(?:exp|log|sqrt|rsqrt|rcp|sin|cos|floor|ceil|trunc|rint)\w*|__(?:u|)(?:mul|sad|add|hadd)\w*"
)


def harmless(name: str) -> bool:
    """A function whose value depends on its arguments alone and that does nothing else."""
    last = name.rsplit("::", 1)[-1]
    if last.startswith(_CONVERSIONS):
        return True
    return _MATH.fullmatch(last) is not None or _HALF.fullmatch(last) is not None


CLOCKS = frozenset(
    {"clock", "clock64", "__clock", "__clock64", "wall_clock64", "__globaltimer", "__builtin_readcyclecounter"}
)
