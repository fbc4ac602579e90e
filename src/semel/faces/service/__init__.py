"""Semel as a service of the system: what it tells its service manager, and the files by which that one starts it."""
