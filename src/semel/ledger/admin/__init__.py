"""Operators' tools: the books, `semel why`, export, import, and the erasure of deleted sessions."""
