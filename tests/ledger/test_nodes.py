"""A node's events keep their source through a new name and a new token (Law 1)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proof.machines.engines import open_ledger
from semel.ledger.inbound import nodes
from semel.ledger.storage.store import LedgerStore

A, B, C, D = (bytes([n]) * 16 for n in range(4))


@pytest.fixture
def store() -> Iterator[LedgerStore]:
    with open_ledger() as store:
        yield store


@pytest.mark.parametrize(
    ("starts", "sources"),
    [
        ([{"ci": A}, {"build": A}], {"build": "node:ci"}),
        ([{"ci": A}, {"build": A}, {"build": B}, {"farm": B}], {"farm": "node:ci"}),
        ([{"ci": A}, {"ci": B}, {"build": B}], {"build": "node:ci"}),
        ([{"ci": A}, {}, {"ci": A}], {"ci": "node:ci"}),
        ([{"ci": A}, {}, {"build": A}], {"build": "node:ci"}),
        ([{"ci": A, "box": B}, {"ci": B, "box": A}], {"ci": "node:box", "box": "node:ci"}),
        ([{"ci": A}, {"build": A, "ci": B}], {"build": "node:ci", "ci": "node:ci.2"}),
        ([{"ci": A}, {"build": A}, {"build": A, "ci": B}, {"farm": B, "ci": C}],
         {"farm": "node:ci.2", "ci": "node:ci.3"}),
        ([{"ci": A}, {"build": B}], {"build": "node:build"}),
        ([{"ci": A, "box": B}, {"ci": C, "box": D}], {"ci": "node:ci", "box": "node:box"}),
        ([{"ci": A, "box": B}, {"ci": B, "box": C}], {"ci": "node:box", "box": "node:box.2"}),
    ],
)  # fmt: skip
def test_a_node_is_known_by_its_token_or_else_by_its_name(
    store: LedgerStore, starts: list[dict[str, bytes]], sources: dict[str, str]
) -> None:
    for configured in starts:
        found = store.write_sync(nodes.assign_sources, configured)
    assert found == sources
    assert store.write_sync(nodes.assign_sources, configured) == sources
