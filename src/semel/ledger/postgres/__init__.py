"""The engine for a PostgreSQL database: connections, transactions, locks, schema (`pip install semel[postgres]`)."""
