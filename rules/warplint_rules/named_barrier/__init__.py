"""Named barriers (`bar.sync id, n`, `bar.arrive id, n`), judged over all sites of an id."""
