"""From an executed kernel to the tables that people debug hand-offs with, and to the listing of what was executed."""

from __future__ import annotations

from warplint.handoffs.derive import protocol, record, run, why

__all__ = ["protocol", "record", "run", "why"]
