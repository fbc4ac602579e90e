"""Bring a file to the person who agreed to it: upload it, then make its offer the card of the file.

All this happens before Teams gets its answer. If it fails, or the gateway is killed meanwhile, Teams tells the person
that it did not work, and the offer is still there: they can agree again. An edit that may have arrived is made again
then, too; it shows nothing twice. The first answer that was handled counts: the record says that a declined file did
not arrive, so who agrees to it afterwards is told by Teams that it did not work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from semel.channels.recent_map import RecentMap
from semel.channels.teams.address import TeamsPlace, make_message_id, parse_message_id
from semel.channels.teams.files import CONSENT_NAME, KEY_FIELD, FileUpload, make_file_card
from semel.channels.teams.parse import read_place
from semel.channels.teams.receipts import check_reply
from semel.channels.teams.transport import TeamsApi
from semel.gateway.ports import Inbox, Incoming, NotSent, Rejected
from semel.text.json_types import Json, object_at, text_at

DECLINED = "the person does not want the file"
GONE = "the file was deleted before the person agreed to it"
MAX_REMEMBERED = 500
_log = logging.getLogger("semel.teams")


@dataclass(frozen=True)
class FileConsent:
    """What a person answered to the offer of a file.

    `id`: of the answer. `key`: of our part. `offer`: the id of the message with the offer. `place`, `conversation`: the
    chat. `upload`: where the file is to be put; None if the person does not want it.
    """

    id: str
    key: str
    offer: str
    place: TeamsPlace
    conversation: str
    upload: FileUpload | None


@asynccontextmanager
async def _lend_offered(inbox: Inbox, consent: FileConsent) -> AsyncGenerator[Path | None]:
    """Lend the file that was offered; None if it was deleted. Raises NotSent if it is not offered, or not any more."""
    async with AsyncExitStack() as until_read:
        try:
            file = await until_read.enter_async_context(inbox.lend_file(consent.key, str(consent.place)))
        except LookupError:
            raise NotSent("no such file is offered to this person, or they declined it") from None
        yield file


def is_consent(activity: Json) -> bool:
    """Return whether an activity is a person's answer to the offer of a file."""
    return activity.get("type") == "invoke" and activity.get("name") == CONSENT_NAME


def read_consent(activity: Json) -> FileConsent:
    """Read the answer to the offer of a file. Raises KeyError, TypeError or ValueError."""
    value, place = object_at(activity, "value"), read_place(activity)
    key = text_at(value, "context", KEY_FIELD)
    if not key or value.get("action") not in ("accept", "decline"):
        raise ValueError("it is no answer to the offer of a file")
    return FileConsent(
        make_message_id(place, str(activity["id"])), key, make_message_id(place, str(activity["replyToId"])), place,
        str(activity["conversation"]["id"]), _read_upload(value) if value["action"] == "accept" else None,
    )  # fmt: skip


def _read_upload(value: Json) -> FileUpload:
    info = object_at(value, "uploadInfo")
    url, content_url = text_at(info, "uploadUrl"), text_at(info, "contentUrl")
    if not url or not content_url:
        raise ValueError("it names no place for the file")
    name, id, kind = (text_at(info, field) for field in ("name", "uniqueId", "fileType"))
    return FileUpload(url, content_url, name or "file", id or "", kind or "")


class ConsentTaker:
    """Handles what people answer to offers of files, one answer at a time for each offer."""

    def __init__(self, name: str, api: TeamsApi) -> None:
        self._name = name
        self._api = api
        self._done = RecentMap[str, None](MAX_REMEMBERED)  # ids of messages that are a file now
        self._locks = RecentMap[str, asyncio.Lock](MAX_REMEMBERED)  # by id of the message with the offer

    async def take(self, consent: FileConsent, url: str, inbox: Inbox) -> list[Incoming]:
        """Bring the file to its person, if they want it. Return what is to be recorded.

        `url`: where the chat is served. Raises NotSent, Unknown or OSError if the file did not arrive.
        """
        if consent.offer not in self._locks:
            self._locks[consent.offer] = asyncio.Lock()
        async with self._locks[consent.offer]:
            if consent.offer in self._done:
                return []
            is_there = Incoming("echo", consent.key, str(consent.place), of=consent.offer)
            async with _lend_offered(inbox, consent) as file:
                if consent.upload is None or file is None:
                    why = DECLINED if consent.upload is None else GONE
                    return [is_there, Incoming("failed", consent.id, of=consent.key, text=why)]
                await self._upload(consent.upload, file)
            await self._show(consent, consent.upload, url)
            self._done[consent.offer] = None
            return [is_there]

    async def _upload(self, upload: FileUpload, file: Path) -> None:
        if not self._api.is_file_address(upload.content_url):
            raise NotSent("the place for the file is not in OneDrive or SharePoint")
        await self._api.upload_file(upload.url, await asyncio.to_thread(file.read_bytes))

    async def _show(self, consent: FileConsent, upload: FileUpload, url: str) -> None:
        """Make the offer the card of the file. Raises NotSent or Unknown."""
        message = parse_message_id(consent.offer)[1]
        path = f"/{quote(consent.conversation, safe='')}/activities/{quote(message, safe='')}"
        try:
            check_reply(await self._api.call_conversations("PUT", url, path, make_file_card(upload)))
        except Rejected as error:  # the file is in their OneDrive all the same
            _log.warning("channel %s: the card of a file was not taken: %s", self._name, error)
