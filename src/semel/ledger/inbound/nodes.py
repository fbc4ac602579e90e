"""Give each node an event source that survives a new name or a new token (Law 1).

A node is recognised by its token, or else by its name, so its replays are still recognised after one of them changed. A
node whose name and token both change is a new node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from semel.ledger.storage.sql import Tx


def sources(tx: Tx, configured: Mapping[str, bytes]) -> dict[str, str]:
    """Map each node's name to its source, and record it. `configured`: the digest of each node's token, by name."""
    found: dict[str, str] = {}
    for name, token in configured.items():
        known = tx.one("node_by_token", token=token)
        if known is not None:
            found[name] = str(known.source)
    for name, token in configured.items():
        if name not in found:
            found[name] = _by_name(tx, name, found.values()) or _fresh(tx, name, found.values())
        tx.run("node_put", source=found[name], name=name, token=token, at=tx.now)
    return found


def _by_name(tx: Tx, name: str, taken: Collection[str]) -> str | None:
    """The source of a known node with this name whose token is no longer configured."""
    return next((str(row.source) for row in tx.all("nodes_by_name", name=name) if row.source not in taken), None)


def _fresh(tx: Tx, name: str, taken: Collection[str]) -> str:
    """An unused source for a new node. `node:NAME` may belong to a node that has been renamed since."""
    source, n = f"node:{name}", 2
    while source in taken or tx.one("node_get", source=source) is not None:
        source, n = f"node:{name}.{n}", n + 1
    return source
