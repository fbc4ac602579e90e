"""Backups: copies of a ledger in use, putting one back, and settling what happened since the copy."""
