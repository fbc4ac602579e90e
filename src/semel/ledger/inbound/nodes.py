"""Give each node an event source that stays the same when the node gets a new name or a new token (Law 1).

A node is recognised by its token or, failing that, by its name. So when one of the two changes, events that the node
sends again are still recognised as duplicates. A node whose name and token both change counts as a new node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from semel.ledger.storage.sql import Tx


def assign_sources(tx: Tx, configured: Mapping[str, bytes]) -> dict[str, str]:
    """Assign each node its source, record it, and return the sources by node name.

    `configured`: the digest of each node's token, by node name.
    """
    source_by_name: dict[str, str] = {}
    for name, token in configured.items():
        source = tx.value(str, "node_by_token", token=token)
        if source is not None:
            source_by_name[name] = source
    for name, token in configured.items():
        if name not in source_by_name:
            source_by_name[name] = _source_by_name(tx, name, source_by_name.values()) or _unused_source(
                tx, name, source_by_name.values()
            )
        tx.run("node_put", source=source_by_name[name], name=name, token=token, at=tx.now)
    return source_by_name


def _source_by_name(tx: Tx, name: str, taken: Collection[str]) -> str | None:
    """Return a source that was last configured under this node name and is not in `taken`; None if there is none."""
    return next((source for source in tx.values(str, "nodes_by_name", name=name) if source not in taken), None)


def _unused_source(tx: Tx, name: str, taken: Collection[str]) -> str:
    """Return an unused source for a new node: `node:NAME`, or a variant if a renamed node already has that source."""
    source, n = f"node:{name}", 2
    while source in taken or tx.exists("node_get", source=source):
        source, n = f"node:{name}.{n}", n + 1
    return source
