"""Turn notes (parsed stanzas) into inbox events: resolve references, download files, compute changed reactions."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import Element, tostring

from semel.channels.downloads import mark_voice_note
from semel.channels.xmpp.files import fetch
from semel.channels.xmpp.parse import ParsedStanza
from semel.channels.xmpp.references import OURS, MessageLookup, own_key
from semel.gateway.ports import Inbox, Incoming, Kept, Missing, Person

log = logging.getLogger(__name__)
MAX_REACTION_CHARS = 40
"""Maximum characters of a reaction; longer ones are ignored, since they cannot be an emoji."""
PAGE_DOWNLOAD_BUDGET_S = 120.0
"""Time limit in seconds for all downloads of a page of messages, so that slow files do not delay messages."""
MAX_FILES = 10
"""Maximum number of linked files of one message that are downloaded."""


@dataclass
class StanzaTranslator:
    """Turns notes into inbox events, for one connection."""

    inbox: Inbox
    lookup: MessageLookup
    deadline: float = 0.0  # end of the download budget, in the event loop's time
    titles: dict[str, str] = field(default_factory=dict)  # room address -> title

    def start_download_budget(self) -> None:
        """Start the download budget of a new page of messages."""
        self.deadline = asyncio.get_running_loop().time() + PAGE_DOWNLOAD_BUDGET_S

    async def translate(self, note: ParsedStanza, key: str, at: float, message: Element) -> list[Incoming]:
        """Convert a note to inbox events. `key`: the message's key. `at`: its time, in seconds since the epoch.

        Raises Offline, and the store's exceptions.
        """
        self.lookup.learn(note, key)
        match note.kind:
            case "own":
                return [Incoming("echo", note.ids[0], note.address, at=at, of=own_key(note, key))] if note.ids else []
            case "bounce":
                return self._bounce(note, at)
            case "delete":
                return await self._deletion(note, key, at)
            case "reactions":
                return await self._reactions(note, key, at)
            case "unreadable":
                return await self._unreadable(note, key, at, message)
        return [await self._message(note, key, at)]

    def _bounce(self, note: ParsedStanza, at: float) -> list[Incoming]:
        """Return the event for a message of ours that bounced after our server had accepted it.

        Bounces from rooms are ignored: a room shows that it accepted a message by reflecting it to its occupants.
        """
        if not note.ids or note.address in self.lookup.rooms:
            return []
        why = f"{note.address}: {note.why}"
        return [Incoming("failed", bounce_key(note), text=why, at=at, of=note.ids[0])]

    async def _message(self, note: ParsedStanza, key: str, at: float) -> Incoming:
        of, to_us = await self._referenced_message(note)
        return Incoming(
            "edit" if note.kind == "edit" else "message",
            key,
            note.address,
            note.sender,
            note.text,
            at,
            of,
            note.group,
            note.mentioned or to_us,
            files=mark_voice_note(note.text, await self._fetch_files(note)),
            title=self.titles.get(note.address, ""),
            data=_answer_data(note),
        )

    async def _referenced_message(self, note: ParsedStanza) -> tuple[str | None, bool]:
        """Return (the key of the corrected or answered message, or None; whether that message is ours)."""
        assert note.sender is not None
        if not note.ref:
            return None, False
        if note.kind == "edit":  # only the author can correct a message
            return await self.lookup.key(note.address, (note.sender.id,), note.ref) or note.ref, False
        if note.group:
            key = f"{note.address}/{note.ref}"
            origin = self.lookup.message_ids.origin(note.address, key)
            return key, origin is not None and origin.author == OURS
        replied_key = await self.lookup.key(note.address, (OURS, note.sender.id), note.ref)
        return replied_key or note.ref, False

    async def _deletion(self, note: ParsedStanza, key: str, at: float) -> list[Incoming]:
        """Return the deletion event; [] if the deletion is not by the message's author.

        In a room, anybody could send a deletion that names the message.
        """
        assert note.sender is not None
        if note.group:
            of: str | None = f"{note.address}/{note.ref}"
            origin = await self.lookup.origin(note.address, of or "")
            if origin is None or origin.author != note.sender.id:
                return []
        else:
            of = await self.lookup.key(note.address, (note.sender.id,), note.ref)
        return [Incoming("delete", key, note.address, note.sender, at=at, of=of, group=note.group)] if of else []

    async def _reactions(self, note: ParsedStanza, key: str, at: float) -> list[Incoming]:
        """Return one event per changed reaction. A stanza lists all current reactions of its sender (XEP-0444, 3.2)."""
        assert note.sender is not None
        if not note.ref:
            return []
        # An archive shows us our own message before any reaction to it. Without one, the reaction may be the first
        # proof that our part arrived, so report it as sent.
        may_be_unreported = False
        if note.group:
            of = f"{note.address}/{note.ref}"
        else:
            known = await self.lookup.key(note.address, (OURS, note.sender.id), note.ref)
            of = known or note.ref
            may_be_unreported = known is None or (of == note.ref and not self.lookup.session.settings.archive)
        now = tuple(emoji for emoji in note.emojis if len(emoji) <= MAX_REACTION_CHARS)
        before = self.lookup.message_ids.replace_reactions(note.address, of, note.sender.id, now)
        changed = [(emoji, False) for emoji in now if emoji not in (before or ())]
        changed += [(emoji, True) for emoji in (before or ()) if emoji not in now]
        if before is None and not now:
            changed = [("", True)]  # removed reactions that we never saw
        report = (
            [Incoming("echo", of, note.address, note.sender, at=at, of=of)] if changed and may_be_unreported else []
        )
        return report + [
            Incoming(
                "reaction", f"{key}#{n}", note.address, note.sender, emoji, at, of, note.group, removed=removed
            )
            for n, (emoji, removed) in enumerate(changed)
        ]  # fmt: skip

    async def _unreadable(self, note: ParsedStanza, key: str, at: float, message: Element) -> list[Incoming]:
        """Return the unreadable event; [] if the sender is a stranger, because strangers must not fill the disk."""
        if note.sender is not None and not await self._known(note, note.sender):
            return []
        log.warning("a message from %s cannot be read: %s", note.source, note.why)
        return [
            Incoming("unreadable", key, note.address, note.sender, at=at, raw=tostring(message), why=note.why)
        ]  # fmt: skip

    async def _known(self, note: ParsedStanza, sender: Person) -> bool:
        return await self.inbox.known(sender, note.address if note.group else "")

    async def _fetch_files(self, note: ParsedStanza) -> tuple[Kept | Missing, ...]:
        assert note.sender is not None
        if not note.links:
            return ()
        if not await self._known(note, note.sender):
            return tuple(Missing(link.rpartition("/")[2][:200] or "file", "not fetched for a stranger")
                         for link in note.links[:MAX_FILES])  # fmt: skip
        return tuple([await self._fetch_file(link) for link in note.links[:MAX_FILES]])

    async def _fetch_file(self, link: str) -> Kept | Missing:
        try:
            async with asyncio.timeout_at(self.deadline):
                return await fetch(link, self.inbox, self.lookup.session)
        except TimeoutError:
            return Missing(link.rpartition("/")[2][:200] or "file", "it took too long to come")


def _answer_data(note: ParsedStanza) -> dict[str, Any]:
    """Return the data that an answer to this message needs: sender, id, thread, links."""
    data = {"from": note.source, "id": note.ids[0] if note.ids else "", "thread": note.thread, "links": note.links}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in data.items() if value}


def bounce_key(note: ParsedStanza) -> str:
    """Return the key of a bounce, which is the same whether the bounce arrives live or from the archive."""
    return _bounded(f"failed/{note.address}/{note.ids[0]}")


def unarchived_key(note: ParsedStanza, other: str) -> str:
    """Return the key of a message that is in no archive, made of its address, its author and an id.

    The id is the one that the author gave the message; if there is none, it is `other`.
    """
    author = note.sender.id if note.sender is not None else OURS
    return _bounded(f"{note.address}/{author}/{note.ids[0] if note.ids else other}")


def _bounded(key: str) -> str:
    return key if len(key) <= 400 else hashlib.blake2b(key.encode(), digest_size=24).hexdigest()
