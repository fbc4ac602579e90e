"""Checks of an installation, for `semel doctor`, `semel config check` and `semel status`."""
