"""HIP and AMD hardware: wave width, lane masks, wait counters."""

OPERATIONS = ("amd.", "hip.")
"""What the rules are about: they are imported for kernels that have one of these."""
EVERYWHERE = frozenset({"warp_size_assumption", "wave64_mask_truncation"})
"""Those that are about the arithmetic of lanes: they need none of these."""
