"""The SQLite file: opening and migrating it, the writer and reader threads, group commit, named queries."""
