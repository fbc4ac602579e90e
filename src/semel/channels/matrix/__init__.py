"""The Matrix channel: one account on a homeserver, over the client-server API, without encryption.

    settings.py     [channels.NAME] with kind = "matrix"
    channel.py      the three methods of the port
    wire.py         one request, and what its answer means
    account.py      the access token; a login keeps its device
    reader.py       what run reads with
    writer.py       what a part needs on its way out
    places.py       addresses: a room, a thread of it, a person
    rooms.py        what is known of a room: its name, who is in it, whether it is encrypted
    cursor.py       how far the account was read
    sync.py         /sync: the loop
    gaps.py         what a /sync left out, page by page
    invitations.py  whom to follow into a room
    reading.py      an event -> what a person did
    said.py         the text of a message as it was meant: reply fallbacks and mentions taken away
    hearing.py      what reading an event needs from the homeserver: originals, files
    media.py        received files
    pictures.py     how a file is shown
    sending.py      one attempt to send
    content.py      a part -> an event's content
    render.py       Markdown -> org.matrix.custom.html
    direct.py       the room for one person, never made twice
    finding.py      was it sent?

Facts are those of the client-server API, version 1.16 (https://spec.matrix.org/v1.16/client-server-api/).
"""

from __future__ import annotations

from semel.channels.matrix.settings import MatrixSettings
from semel.gateway.ports import Channel

__all__ = ["MatrixSettings", "make"]


def make(name: str, settings: MatrixSettings) -> Channel:
    """The channel. What renders and reads is loaded only now: a gateway without Matrix does without."""
    from semel.channels.matrix.channel import MatrixChannel

    return MatrixChannel(name, settings)
