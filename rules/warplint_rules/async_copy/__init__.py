"""Asynchronous copies, the async proxy, and what completes them."""
