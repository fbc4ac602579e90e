"""Full-text search: an index beside the ledger, made of it, and never part of a transaction that people wait for."""
