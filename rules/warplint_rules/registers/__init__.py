"""Register reallocation between warpgroups (`setmaxnreg`)."""

OPERATIONS = ("setmaxnreg",)
"""What the rules are about: they are imported for kernels that have one of these."""
