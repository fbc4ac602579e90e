"""Bring a file to the person who agreed to it: upload it, then make its offer the card of the file.

All this happens before Teams gets its answer. If it fails, or the gateway is killed meanwhile, Teams tells the person
that it did not work, and the offer is still there: they can agree again. An edit that may have arrived is made again
then, too; it shows nothing twice.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from urllib.parse import quote

from semel.channels.recent_map import RecentMap
from semel.channels.teams.address import TeamsPlace, make_message_id
from semel.channels.teams.files import FileConsent, FileUpload, make_file_card
from semel.channels.teams.receipts import check_reply
from semel.channels.teams.transport import TeamsApi
from semel.gateway.ports import Inbox, Incoming, NotSent, Rejected

DECLINED = "the person does not want the file"
GONE = "the file was deleted before the person agreed to it"
MAX_REMEMBERED = 500
_log = logging.getLogger("semel.teams")


class ConsentTaker:
    """Handles what people answer to offers of files, one answer at a time for each part."""

    def __init__(self, name: str, api: TeamsApi) -> None:
        self._name = name
        self._api = api
        self._done = RecentMap[str, None](MAX_REMEMBERED)  # keys of parts whose file has arrived
        self._taking: dict[str, asyncio.Lock] = {}  # by key

    async def take(
        self, consent: FileConsent, place: TeamsPlace, conversation: str, url: str, key: str, inbox: Inbox
    ) -> list[Incoming]:
        """Bring the file to its person, if they want it. Return what is to be recorded; `key`: of the answer.

        `conversation`, `url`: Teams' id of the chat, and where it is served. Raises NotSent, Unknown or Rejected if the
        file did not arrive, and OSError.
        """
        lock = self._taking.setdefault(consent.key, asyncio.Lock())
        try:
            async with lock:
                return await self._take(consent, place, conversation, url, key, inbox)
        finally:
            if not lock.locked():
                self._taking.pop(consent.key, None)

    async def _take(
        self, consent: FileConsent, place: TeamsPlace, conversation: str, url: str, key: str, inbox: Inbox
    ) -> list[Incoming]:
        of = make_message_id(place, consent.message)
        if consent.upload is None:
            return [Incoming("failed", key, of=of, text=DECLINED)]
        if consent.key in self._done:
            return []
        async with inbox.lend_file(consent.key, str(place)) as file:
            if file is None:
                return [Incoming("failed", key, of=of, text=GONE)]
            await self._upload(consent.upload, file)
        path = f"/{quote(conversation, safe='')}/activities/{quote(consent.message, safe='')}"
        try:
            check_reply(await self._api.call_conversations("PUT", url, path, make_file_card(consent.upload)))
        except Rejected as error:  # the file is in their OneDrive all the same
            _log.warning("channel %s: the card of a file was not taken: %s", self._name, error)
        self._done[consent.key] = None
        return [Incoming("echo", consent.key, str(place), of=of)]

    async def _upload(self, upload: FileUpload, file: Path) -> None:
        if not self._api.is_file_address(upload.content_url):
            raise NotSent("the place for the file is not in OneDrive or SharePoint")
        content = await asyncio.to_thread(file.read_bytes)
        await self._api.upload_file(upload.url, content)
