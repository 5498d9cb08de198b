"""Shared memory: bounds, limits, and the order of ordinary accesses."""
