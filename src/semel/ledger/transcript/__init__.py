"""What people see: entries, and views of them for watchers."""
