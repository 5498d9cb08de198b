"""Named barriers (`bar.sync id, n`, `bar.arrive id, n`), judged over all sites of an id."""

OPERATIONS = ("bar.sync.named", "bar.arrive.named", "bar.red.named", "barrier.nonaligned")
"""What the rules are about: they are imported for kernels that have one of these."""
