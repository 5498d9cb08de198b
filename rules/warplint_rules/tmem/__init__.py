"""Blackwell tensor memory: allocation, accesses and their completion, deallocation."""
