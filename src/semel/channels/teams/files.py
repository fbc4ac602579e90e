"""Files in Teams: of people's messages, the card that offers one of ours, and the one that takes its place.

A bot has files in personal chats alone; elsewhere they need Microsoft Graph, which Semel does not use. A file of ours
goes into the OneDrive of its person, and they decide about that: a card offers it, Teams posts their answer with an
address to upload to, and an edit makes the offer a card of the file. So all that people see of it is one message.
Pictures are shown in any place, without a question.

Source: https://learn.microsoft.com/microsoftteams/platform/bots/how-to/bots-filesv4.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass

from semel.channels.teams.address import TeamsPlace
from semel.channels.uploads import name_file
from semel.gateway.ports import REPEAT_PREFIX, Op, Rejected
from semel.text.json_types import Json
from semel.text.wellformed import scrub

DOWNLOAD_TYPE = "application/vnd.microsoft.teams.file.download.info"
OFFER_TYPE = "application/vnd.microsoft.teams.card.file.consent"
FILE_TYPE = "application/vnd.microsoft.teams.card.file.info"
CONSENT_NAME = "fileConsent/invoke"
KEY_FIELD = "semel"
"""The field of an offer's context that holds the key of our part."""
NAME_FIELD = "name"
"""The field of an offer's context that holds the file's name."""
PICTURE_TYPES = ("image/png", "image/jpeg", "image/gif")
MAX_PICTURE_BYTES = 1_000_000
"""The largest picture that a message may contain. Teams also says: at most 1024 x 1024 pixels
(https://learn.microsoft.com/microsoftteams/platform/bots/how-to/conversations/conversation-messages)."""
PERSONAL_ONLY = (
    "Teams lets a bot send files in personal chats only; elsewhere it sends pictures (PNG, JPEG or GIF) of at most "
    f"{MAX_PICTURE_BYTES:,} bytes"
)
_NOT_IN_NAMES = re.compile(r'["*:<>?/\\|]')  # OneDrive takes no such character in a name


@dataclass(frozen=True)
class TeamsFile:
    """A file of a message. `url`: where to fetch it. `service_url`: of a picture in the text, where Teams is served.

    `why`: why it cannot be fetched, or "".
    """

    id: str
    name: str
    mime: str
    url: str = ""
    service_url: str = ""
    why: str = ""
    size: int = 0  # Teams does not tell it
    is_voice: bool = False


@dataclass(frozen=True)
class FileUpload:
    """The place for a file. `url`: takes its content. `content_url`: where it is then."""

    url: str
    content_url: str
    name: str
    unique_id: str
    file_type: str


def make_file_message(op: Op, place: TeamsPlace, content: bytes) -> Json:
    """Return the message that shows a picture, or offers another file to its person. Raises Rejected."""
    name, mime = name_file(op)
    name = (REPEAT_PREFIX if op.marked else "") + scrub(_NOT_IN_NAMES.sub("_", name))
    if mime in PICTURE_TYPES and len(content) <= MAX_PICTURE_BYTES:
        data = base64.b64encode(content).decode("ascii")
        return _make_message({"contentType": mime, "name": name, "contentUrl": f"data:{mime};base64,{data}"})
    if not place.person:
        raise Rejected(PERSONAL_ONLY)
    context = {KEY_FIELD: op.key, NAME_FIELD: name}
    offer = {"description": name, "sizeInBytes": len(content), "acceptContext": context, "declineContext": context}
    return _make_message({"contentType": OFFER_TYPE, "name": name, "content": offer})


def make_file_card(upload: FileUpload) -> Json:
    """Return the message that takes the place of the offer once the file was uploaded."""
    content = {"uniqueId": upload.unique_id, "fileType": upload.file_type}
    return _make_message(
        {"contentType": FILE_TYPE, "name": upload.name, "contentUrl": upload.content_url, "content": content}
    )


def make_withdrawal(name: str) -> Json:
    """Return the message that takes the place of the offer if the file was not delivered. `name`: of the file."""
    text = f"{name} was not delivered. Ask for it again if you want it."
    return {"type": "message", "textFormat": "plain", "text": text}


def _make_message(attachment: Json) -> Json:
    return {"type": "message", "attachments": [attachment]}
