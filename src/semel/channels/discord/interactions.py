"""Acknowledge slash commands and pressed buttons within the three seconds that Discord allows.

An interaction is an event like a message: it is put into the inbox, and what answers it is sent as a part. The
acknowledgement says only that it was heard, to the person alone ("ephemeral"), or nothing at all for a button. It
leaves after the commit (Law 1). If the commit takes long, a deferral leaves first, which shows that the bot thinks, and
is filled in afterwards. None of these is sent twice with an effect: Discord takes one acknowledgement of an
interaction, and an edit is idempotent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from urllib.parse import quote

from semel.channels.discord.parse import DiscordDraft, Interaction
from semel.channels.discord.transport import DiscordApi
from semel.gateway.ports import Inbox, NotSent, Unknown
from semel.text.json_types import Json

DEFER_AFTER_S = 1.5
"""Seconds after which a deferral leaves if the commit is not there: half of what Discord allows."""
EPHEMERAL = 64
_MESSAGE, _DEFERRED_MESSAGE, _DEFERRED_UPDATE = 4, 5, 6
HEARD = "/{} was heard. The answer comes here as a message."
NOT_KNOWN = "You may not talk to this bot: its owner has to let you in."

_log = logging.getLogger("semel.discord")


class InteractionDesk:
    """Acknowledges interactions in tasks of their own, which end with `close`."""

    def __init__(self, api: DiscordApi) -> None:
        self._api = api
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<InteractionDesk {len(self._tasks)} open>"

    def expect_commit(self, drafts: Sequence[DiscordDraft], inbox: Inbox) -> asyncio.Event:
        """Begin to acknowledge the drafts' interactions. Set the returned event once the drafts are committed."""
        committed = asyncio.Event()
        for draft in drafts:
            if draft.interaction is not None:
                task = asyncio.create_task(self._acknowledge(draft, draft.interaction, inbox, committed))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        return committed

    async def close(self) -> None:
        """Cancel the acknowledgements that have not left."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _acknowledge(
        self, draft: DiscordDraft, interaction: Interaction, inbox: Inbox, committed: asyncio.Event
    ) -> None:
        try:
            try:
                async with asyncio.timeout(DEFER_AFTER_S):
                    await committed.wait()
                is_late = False
            except TimeoutError:
                is_late = True
                await self._respond(interaction, _defer(interaction))
                await committed.wait()
            if interaction.is_component:
                if not is_late:
                    await self._respond(interaction, _defer(interaction))
                return
            incoming = draft.incoming
            group = incoming.address if incoming.group else ""
            is_known = incoming.sender is not None and await inbox.known(incoming.sender, group)
            text = HEARD.format(interaction.name) if is_known else NOT_KNOWN
            if is_late:
                await self._fill_in(interaction, text)
            else:
                data: Json = {"content": text, "flags": EPHEMERAL, "allowed_mentions": {"parse": []}}
                await self._respond(interaction, {"type": _MESSAGE, "data": data})
        except (NotSent, Unknown) as error:
            _log.warning("an interaction was heard, and Discord was not told so: %s", error)

    async def _respond(self, interaction: Interaction, body: Json) -> None:
        path = f"/interactions/{interaction.id}/{quote(interaction.token, safe='')}/callback"
        reply = await self._api.call("POST", path, body, authorized=False)
        if not reply.ok:  # it was acknowledged before, or is too old: the event counts all the same
            _log.info("an interaction was heard, and its acknowledgement came to nothing: %s", reply.error_text)

    async def _fill_in(self, interaction: Interaction, text: str) -> None:
        path = f"/webhooks/{interaction.application}/{quote(interaction.token, safe='')}/messages/@original"
        await self._api.call("PATCH", path, {"content": text}, authorized=False)


def _defer(interaction: Interaction) -> Json:
    if interaction.is_component:
        return {"type": _DEFERRED_UPDATE}
    return {"type": _DEFERRED_MESSAGE, "data": {"flags": EPHEMERAL}}
