"""Full-text search: an index beside the ledger, built from it outside the transactions that people wait for."""
