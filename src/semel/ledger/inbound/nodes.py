"""Which source a node's events have: what it was when the node was first configured (Law 1).

A node is known by its token, or else by its name: a node that is renamed is the same machine, whose replays are to be
folded, and so is one that gets another token. A node that gets both at once is another one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from semel.ledger.storage.sql import Tx


def sources(tx: Tx, configured: Mapping[str, bytes]) -> dict[str, str]:
    """Node name -> source. `configured`: the digest of each one's token, by its name."""
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
    """The node that was called so, and has a token now that is not known."""
    return next((str(row.source) for row in tx.all("nodes_by_name", name=name) if row.source not in taken), None)


def _fresh(tx: Tx, name: str, taken: Collection[str]) -> str:
    """A source that no node has: another one may have begun with this name and be called otherwise now."""
    source, n = f"node:{name}", 2
    while source in taken or tx.one("node_get", source=source) is not None:
        source, n = f"node:{name}.{n}", n + 1
    return source
