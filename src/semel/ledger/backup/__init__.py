"""Backups: copy a ledger in use, put a copy back, and settle what may have happened since the copy was made."""
