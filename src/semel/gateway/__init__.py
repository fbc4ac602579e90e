"""The gateway: accept events, run agent turns over them, deliver what agents say, and serve live views.

There is one package for each stage of a message: `inbound` (channels, access, commands), `turns` (scheduling, prompts,
agent output), `tools` (calls from agents), `outbound` (delivery to platforms). `api` is the facade that the CLI and the
HTTP server call; `ports` are the interfaces that agent drivers and channel adapters implement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semel.gateway.api.gateway import Gateway

__all__ = ["Gateway"]


def __getattr__(name: str) -> Any:
    """Import `Gateway` on first use. An agent driver needs only the ports, so it must not load the whole gateway."""
    if name == "Gateway":
        from semel.gateway.api.gateway import Gateway

        return Gateway
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
