"""Transactions at the same time: several processes and threads on the same sessions of one database."""
