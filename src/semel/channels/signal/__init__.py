"""Signal: an account of its own, over signal-cli (https://github.com/AsamK/signal-cli). See docs/signal.md."""

from __future__ import annotations

from semel.channels.signal.settings import ACCOUNT_ID, EXAMPLE_ID, SignalSettings
from semel.gateway.ports import Channel

__all__ = ["ACCOUNT_ID", "EXAMPLE_ID", "SignalSettings", "make"]


def make(name: str, settings: SignalSettings) -> Channel:
    """Create the channel. Its modules are imported here, so that a gateway without Signal does not load them."""
    from semel.channels.signal.channel import SignalChannel

    return SignalChannel(name, settings)
