"""The embedded engine: one SQLite file, its opening and migration, one writer, readers, and group commit."""
