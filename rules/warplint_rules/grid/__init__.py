"""Hand-overs between blocks: grid-wide barriers, flags in global memory, dependent launches."""
