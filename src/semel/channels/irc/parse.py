"""Read a PRIVMSG or NOTICE as an inbox event.

A person is known by their account at the network (`account-tag`). A nick without one is nobody, because anybody can
take it; with `trust_nicks` it is `~NICK`, which is never the account of the same name.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Container

from semel.channels.irc.login import list_nicks
from semel.channels.irc.session import IrcSession, Received
from semel.channels.irc.settings import ACCOUNT_ID
from semel.channels.irc.wire import IrcMessage, fold
from semel.gateway.ports import Incoming, Person

NICK_MARK = "~"
"""Before a nick in the id of a person without an account, and in the address of their messages."""
REPLY_TAGS = ("+draft/reply", "+reply")
MAX_ID_CHARS = 400
_CODES = re.compile(
    r"\x03(?:\d{1,2}(?:,\d{1,2})?)?|\x04(?:[0-9A-Fa-f]{6}(?:,[0-9A-Fa-f]{6})?)?|[\x02\x0f\x11\x16\x1d-\x1f]"
)
_NAME_CHARS = r"\w\[\]\\`^{|}-"


def parse_message(received: Received, session: IrcSession, sent_ids: Container[str], now: float) -> Incoming | None:
    """Return the event of a message; None if it says nothing to us, or nobody can be known to have written it.

    `sent_ids`: the ids of our own messages. `now`: when it came, for servers that give no time.
    """
    message = received.message
    if message.command not in ("PRIVMSG", "NOTICE") or "!" not in message.source:
        return None  # of a server, not of a person
    channel = session.find_channel(message.param(0))
    if channel is None and session.fold(message.param(0)) != session.fold(session.nick):
        return None
    sender = identify(message, session)
    text = read_text(message)
    if sender is None or not text.strip() or is_own(message, session):
        return None
    reply = next((message.tags[tag] for tag in REPLY_TAGS if message.tags.get(tag)), "")[:MAX_ID_CHARS]
    is_named = False
    if channel is not None:
        text, is_named = remove_name(text, (session.nick, *list_nicks(session.settings.nick)))
    return Incoming(
        "message",
        message_id(message) or f"live:{secrets.token_hex(12)}",
        session.read_status_prefix(message.param(0)) + fold(channel) if channel is not None else sender.id,
        sender,
        text,
        at=message.time or now,
        of=reply or None,
        group=channel is not None,
        mentioned=is_named or reply in sent_ids,
        title=channel or "",
        data={"nick": message.nick},
    )


def message_id(message: IrcMessage) -> str:
    """Return the id that the server gave the message; "" if it gives none that can be used."""
    id = message.tags.get("msgid", "")
    return id if id.isprintable() and len(id) <= MAX_ID_CHARS else ""


def is_own(message: IrcMessage, session: IrcSession) -> bool:
    """Whether the message is our own: shown to us by the server, or of an earlier connection."""
    account = message.tags.get("account", "")
    is_own_account = bool(account) and fold(account) == fold(session.own_account)
    return is_own_account or session.is_own_nick(message.nick)


def identify(message: IrcMessage, session: IrcSession) -> Person | None:
    """Return who wrote a message; None if nobody can be known for certain."""
    is_bot = message.command == "NOTICE" or "bot" in message.tags or "draft/bot" in message.tags
    account = fold(message.tags.get("account", "")) if session.has_capability("account-tag") else ""
    if re.fullmatch(ACCOUNT_ID, account) and not account.startswith(NICK_MARK):
        return Person(account, message.nick, is_bot)
    by_nick = f"{NICK_MARK}{fold(message.nick)}"
    if session.settings.trust_nicks and re.fullmatch(ACCOUNT_ID, by_nick):
        return Person(by_nick, message.nick, is_bot)
    return None


def read_text(message: IrcMessage) -> str:
    """Return the text without formatting codes; "" for a request between programs (CTCP) that is no action."""
    text = message.params[1] if len(message.params) > 1 else ""
    if text.startswith("\x01"):
        verb, _, rest = text[1:].rstrip("\x01").partition(" ")
        text = f"* {message.nick} {rest}" if verb.upper() == "ACTION" and rest.strip() else ""
    return _CODES.sub("", text)


def remove_name(text: str, nicks: tuple[str, ...]) -> tuple[str, bool]:
    """Remove our nick at the beginning of a text or after a command. Returns (text, whether it contains our nick)."""
    for nick in dict.fromkeys(nicks):
        name = re.escape(nick)
        if command := re.match(rf"\s*(/\w+)@{name}(?![{_NAME_CHARS}])", text, re.IGNORECASE):
            return command[1] + text[command.end() :], True
        called = re.match(rf"\s*(?:@{name}[:,]?|{name}\s?[:,])(?=\s)\s*", text, re.IGNORECASE)
        if called and text[called.end() :].strip():
            return text[called.end() :], True
        if re.search(rf"(?<![{_NAME_CHARS}]){name}(?![{_NAME_CHARS}])", text, re.IGNORECASE):
            return text, True
    return text, False
