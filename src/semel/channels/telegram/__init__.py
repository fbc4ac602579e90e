"""Telegram: a bot, by the Bot API (https://core.telegram.org/bots/api). See docs/telegram.md."""

from __future__ import annotations

from semel.channels.telegram.settings import TelegramSettings
from semel.gateway.ports import Channel

__all__ = ["TelegramSettings", "make"]


def make(name: str, settings: TelegramSettings) -> Channel:
    """Create the channel. Its modules are imported here, so that a gateway without Telegram does not load them."""
    from semel.channels.telegram.channel import TelegramChannel

    return TelegramChannel(name, settings)
