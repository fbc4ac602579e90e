"""Public fakes: test your own bots and channels with them, as Semel's own tests do."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semel.testing.channels import FakeChannel, Fault, Platform, Post, caps_of
    from semel.testing.clock import FrozenClock, HurriedClock
    from semel.testing.inbox import KeptInbox

__all__ = ["FakeChannel", "Fault", "FrozenClock", "HurriedClock", "KeptInbox", "Platform", "Post", "caps_of"]

_MODULES = {"FrozenClock": "clock", "HurriedClock": "clock", "KeptInbox": "inbox"}  # all others are in `channels`


def __getattr__(name: str) -> Any:
    """Import a fake on first use, so that the scripted agent, which is in this package, starts without the fakes."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'channels')}"), name)
