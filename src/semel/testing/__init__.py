"""Public fakes: test your own bots and channels with them, as Semel's own tests do."""

from semel.testing.channels import FakeChannel, Fault, Platform, Post, caps_of
from semel.testing.clock import FrozenClock, HurriedClock

__all__ = ["FakeChannel", "Fault", "FrozenClock", "HurriedClock", "Platform", "Post", "caps_of"]
