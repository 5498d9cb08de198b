"""Whether the fast path is there at all, and whether its operands fit the hardware."""
