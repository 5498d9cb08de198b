"""Register reallocation between warpgroups (`setmaxnreg`), and what the compiler reports of registers."""

OPERATIONS = ("setmaxnreg",)
"""What the rules are about: they are imported for kernels that have one of these."""
EVERYWHERE = frozenset({"resource_spill"})
"""Any kernel may have been compiled."""
