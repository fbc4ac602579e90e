"""Bring a file to the person who agreed to it: upload it, then make its offer the card of the file.

If they decline, the offer becomes a text without buttons; so does one whose file is not kept any more.

All this happens before Teams gets its answer. If it fails, or the gateway is killed meanwhile, Teams tells the person
that it did not work, and the offer is still there: they can agree again. An edit that may have arrived is made again
then, too; it shows nothing twice. The file is uploaded again only if it did not arrive, or the gateway was restarted.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from urllib.parse import quote
from weakref import WeakValueDictionary

from semel.channels.recent_map import RecentMap
from semel.channels.teams.address import TeamsPlace, make_message_id, parse_message_id
from semel.channels.teams.files import CONSENT_NAME, KEY_FIELD, NAME_FIELD, FileUpload, make_file_card, make_withdrawal
from semel.channels.teams.parse import read_place
from semel.channels.teams.receipts import check_reply
from semel.channels.teams.transport import TeamsApi
from semel.gateway.ports import Inbox, Incoming, NotSent, Rejected, Unknown
from semel.text.json_types import Json, object_at, text_at

DECLINED_REASON = "the person does not want the file"
FILE_GONE_REASON = "the file was deleted before the person agreed to it"
MAX_REMEMBERED_OFFERS = 500
_log = logging.getLogger("semel.teams")


@dataclass(frozen=True)
class FileConsent:
    """What a person answered to the offer of a file.

    `id`: of the answer. `key`: of our part. `name`: of the file. `offer`: the id of the message with the offer.
    `place`, `conversation`: the chat. `upload`: where the file is to be put; None if the person does not want it.
    """

    id: str
    key: str
    name: str
    offer: str
    place: TeamsPlace
    conversation: str
    upload: FileUpload | None


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
        make_message_id(place, str(activity["id"])), key, text_at(value, "context", NAME_FIELD) or "The file",
        make_message_id(place, str(activity["replyToId"])), place, str(activity["conversation"]["id"]),
        _read_upload(value) if value["action"] == "accept" else None,
    )  # fmt: skip


def _read_upload(value: Json) -> FileUpload:
    info = object_at(value, "uploadInfo")
    url, content_url = text_at(info, "uploadUrl"), text_at(info, "contentUrl")
    if not url or not content_url:
        raise ValueError("it names no place for the file")
    name, id, kind = (text_at(info, field) for field in ("name", "uniqueId", "fileType"))
    return FileUpload(url, content_url, name or "file", id or "", kind or "")


def _report_arrival(consent: FileConsent) -> Incoming:
    """Return the report that the message with the offer is there. An answer may come before its receipt."""
    return Incoming("echo", consent.key, str(consent.place), of=consent.offer)


class ConsentHandler:
    """Handles what people answer to offers of files, one answer at a time for each offer."""

    def __init__(self, name: str, api: TeamsApi) -> None:
        self._name = name
        self._api = api
        self._ended = RecentMap[str, FileUpload | None](MAX_REMEMBERED_OFFERS)  # by id of the offer: where its file is
        self._locks = WeakValueDictionary[str, asyncio.Lock]()  # by id of the offer

    async def handle(self, consent: FileConsent, url: str, inbox: Inbox) -> None:
        """Bring the file to its person, if they want it, and record what became of it.

        The answer that ended the offer counts; later ones only show again what became of it. `url`: where the chat is
        served. Raises NotSent, Unknown or OSError if the file did not arrive, or nobody knows whether its card did.
        """
        async with self._locks.setdefault(consent.offer, asyncio.Lock()):
            if consent.offer not in self._ended:
                self._ended[consent.offer] = await self._end_offer(consent, inbox)
            upload = self._ended[consent.offer]
            if upload is None:
                await self._withdraw(consent, url)
                return
            await self._replace(consent, url, make_file_card(upload))
            await inbox.put([_report_arrival(consent)], None)

    async def _end_offer(self, consent: FileConsent, inbox: Inbox) -> FileUpload | None:
        """Upload the file. Return where it is; None if it is recorded as not delivered.

        That record is made before the buttons go away: whatever happens then, its part lends no file any more. Raises
        NotSent if no such file is offered, or not any more.
        """
        try:
            async with inbox.lend_file(consent.key, str(consent.place)) as file:
                is_wanted = consent.upload is not None
                content = await asyncio.to_thread(file.read_bytes) if is_wanted and file is not None else None
        except LookupError:
            raise NotSent("no such file is offered to this person, or they declined it") from None
        if consent.upload is not None and content is not None:
            await self._api.upload_file(consent.upload, content)
            return consent.upload
        reason = DECLINED_REASON if consent.upload is None else FILE_GONE_REASON
        await inbox.put([_report_arrival(consent), Incoming("failed", consent.id, of=consent.key, text=reason)], None)
        return None

    async def _withdraw(self, consent: FileConsent, url: str) -> None:
        """Take the buttons away. Raises nothing: if it fails, they stay, and bring the same text when pressed."""
        try:
            await self._replace(consent, url, make_withdrawal(consent.name))
        except (NotSent, Unknown) as error:
            _log.warning("channel %s: the offer of a file keeps its buttons: %s", self._name, error)

    async def _replace(self, consent: FileConsent, url: str, message: Json) -> None:
        """Put a message in the place of the offer. Raises NotSent or Unknown."""
        id = parse_message_id(consent.offer)[1]
        path = f"/{quote(consent.conversation, safe='')}/activities/{quote(id, safe='')}"
        try:
            check_reply(await self._api.call_conversations("PUT", url, path, message))
        except Rejected as error:  # what became of the file stays true
            _log.warning("channel %s: the offer of a file could not be replaced: %s", self._name, error)
