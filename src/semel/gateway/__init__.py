"""What makes it happen: inbox, wakes, turns, spawns, outbox, live views, and the ports of agents and channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semel.gateway.api.gateway import Gateway

__all__ = ["Gateway"]


def __getattr__(name: str) -> Any:
    """`Gateway` on first use: an agent driver that needs only the ports does not load the whole house."""
    if name == "Gateway":
        from semel.gateway.api.gateway import Gateway

        return Gateway
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
