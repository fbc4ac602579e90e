"""The emoji that Telegram takes as reactions: https://core.telegram.org/bots/api#reactiontypeemoji."""

from __future__ import annotations

_EMOJI = (
    "👍 👎 ❤ 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤\u200d🔥 🌚 🌭 💯 "
    "🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨\u200d💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 "
    "🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷\u200d♂ 🤷 🤷\u200d♀ 😡"
)
EMOJI = tuple(_EMOJI.split())
_TAKEN = frozenset(EMOJI)
_AS_TEXT = {"<3": "❤", "+1": "👍", "-1": "👎"}


def reaction(emoji: str) -> str | None:
    """The emoji in Telegram's spelling (without the emoji variation selector); None if it is not allowed there."""
    plain = emoji.strip().replace("\ufe0f", "")
    plain = _AS_TEXT.get(plain, plain)
    return plain if plain in _TAKEN else None
