"""Texts that people see on every platform."""

REPEAT_PREFIX = "(repeat) "
"""Prefix of a message that a person asked to send again (`Op.marked`)."""
