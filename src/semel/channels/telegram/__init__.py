"""Telegram: a bot, by the Bot API (https://core.telegram.org/bots/api). See docs/telegram.md."""

from semel.channels.telegram.channel import TelegramChannel
from semel.channels.telegram.settings import TelegramSettings

__all__ = ["TelegramChannel", "TelegramSettings"]
