"""Operators' tools: the books, `semel why`, export, import, erasing deleted sessions."""
