"""Who executes an operation: barriers, collectives and single-thread operations under guards."""
