"""Semel as a service of the system: the files of its service manager, and what it tells the manager while it runs."""
