"""Blackwell tensor memory: allocation, accesses and their completion, deallocation."""

OPERATIONS = ("tcgen05.",)
"""What the rules are about: they are imported for kernels that have one of these."""
