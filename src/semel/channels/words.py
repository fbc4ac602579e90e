"""Words that people see on every platform."""

REPEAT = "(repeat) "
"""Before a text that a person had sent again (`Op.marked`)."""
