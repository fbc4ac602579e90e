"""docs/agents.md says what the traces show."""

from __future__ import annotations

from agents_table import DOC, written

from semel.acp_stream import PROFILES


def test_the_tables_of_the_document_are_as_the_traces_are() -> None:
    text = DOC.read_text()
    assert text == written(text), "run: python tests/stream/agents_table.py --write"


def test_every_profile_is_named_in_the_document() -> None:
    text = DOC.read_text()
    assert not [name for name in PROFILES if f"| {name} |" not in text and name != "careful"]
