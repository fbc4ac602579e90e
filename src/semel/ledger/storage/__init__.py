"""What every engine of the ledger shares: the rows, the named statements, the transaction and the errors."""
