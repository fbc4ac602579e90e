"""The transcript as people see it: entries, and views of them for watchers."""
