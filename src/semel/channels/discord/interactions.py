"""Acknowledge slash commands and pressed buttons within the three seconds that Discord allows.

An interaction is an event like a message: it is put into the inbox, and what answers it is sent as a part. Its
acknowledgement has no words, since nothing speaks without its row (Law 6): a button is acknowledged with a deferred
update, which shows nothing; a command with a deferred answer, for its author alone ("ephemeral"), in whose place
Discord shows that the bot thinks, and which is deleted at once. It leaves after the commit (Law 1), or, if that takes
long, before, and is then deleted after it. None of these is sent twice with an effect: Discord takes one
acknowledgement of an interaction, and a deletion is idempotent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from urllib.parse import quote

from semel.channels.discord.parse import DiscordDraft, Interaction
from semel.channels.discord.transport import DiscordApi
from semel.gateway.ports import NotSent, Unknown
from semel.text.json_types import Json

DEFER_AFTER_S = 1.5
"""Seconds after which the acknowledgement leaves if the commit is not there: half of what Discord allows."""
MAX_DELETE_ATTEMPTS = 3
DELETE_RETRY_DELAY_S = 1.0
EPHEMERAL = 64
_DEFERRED_MESSAGE, _DEFERRED_UPDATE = 5, 6

_log = logging.getLogger("semel.discord")


class InteractionDesk:
    """Acknowledges interactions in tasks of their own, which end with `close`."""

    def __init__(self, api: DiscordApi) -> None:
        self._api = api
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<InteractionDesk {len(self._tasks)} open>"

    def expect_commit(self, drafts: Sequence[DiscordDraft]) -> asyncio.Event:
        """Begin to acknowledge the drafts' interactions. Set the returned event once the drafts are committed."""
        committed = asyncio.Event()
        for draft in drafts:
            if draft.interaction is not None:
                task = asyncio.create_task(self._acknowledge(draft.interaction, committed))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        return committed

    async def close(self) -> None:
        """Cancel the acknowledgements that have not left."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _acknowledge(self, interaction: Interaction, committed: asyncio.Event) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DEFER_AFTER_S):
                await committed.wait()
        try:
            await self._defer(interaction)
        except NotSent as error:
            _log.warning("an interaction was heard, and Discord was not told so: %s", error)
            return
        except Unknown as error:  # it may be there
            _log.warning("an interaction was heard, and Discord may not have been told so: %s", error)
        await committed.wait()
        if not interaction.is_component:
            await self._delete_deferred(interaction)

    async def _defer(self, interaction: Interaction) -> None:
        path = f"/interactions/{interaction.id}/{quote(interaction.token, safe='')}/callback"
        body: Json = {"type": _DEFERRED_MESSAGE, "data": {"flags": EPHEMERAL}}
        if interaction.is_component:
            body = {"type": _DEFERRED_UPDATE}
        reply = await self._api.call("POST", path, body, authorized=False)
        if not reply.ok:  # it was acknowledged before, or is too old: the event counts all the same
            _log.info("an interaction was heard, and its acknowledgement came to nothing: %s", reply.error_text)

    async def _delete_deferred(self, interaction: Interaction) -> None:
        """Delete the deferred answer (https://docs.discord.com/developers/interactions/receiving-and-responding).

        Until then, Discord shows that the bot thinks: for a quarter of an hour, if the gateway is killed before.
        """
        path = f"/webhooks/{interaction.application}/{quote(interaction.token, safe='')}/messages/@original"
        for attempt in range(1, MAX_DELETE_ATTEMPTS + 1):
            try:
                reply = await self._api.call("DELETE", path, authorized=False)
                failure = reply.error_text if reply.status == 429 or reply.status >= 500 else ""
            except (NotSent, Unknown) as error:
                failure = str(error)
            if not failure:
                return
            _log.info("Discord may go on to show that the bot thinks, attempt %d: %s", attempt, failure)
            await asyncio.sleep(DELETE_RETRY_DELAY_S)
