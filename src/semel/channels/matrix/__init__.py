"""The Matrix channel: one account on a homeserver, over the client-server API, without encryption.

    settings.py        [channels.NAME] with kind = "matrix"
    channel.py         the channel port: run, send, find, typing
    transport.py       one HTTP request, and the meaning of its answer
    account.py         login, device, and requests with our access token
    address.py         addresses: a room, a thread in it, a person

    receive.py         the /sync loop and the saved position in it
    gaps.py            events that a /sync left out, page by page
    invitations.py     accepting and declining invitations
    parse.py           an event as a message, edit, deletion or reaction
    resolve_events.py  look-ups for parsed events: referenced originals, files
    downloads.py       received files
    rooms.py           the state of rooms: name, members, encryption

    send.py            one attempt to send a part, and the search for a part that was sent
    event_content.py   a part as the content of an event
    render.py          Markdown as org.matrix.custom.html
    direct_rooms.py    the room for one person, created at most once

Source: the client-server API, version 1.16 (https://spec.matrix.org/v1.16/client-server-api/).
"""

from __future__ import annotations

from semel.channels.matrix.settings import MatrixSettings
from semel.gateway.ports import Channel

__all__ = ["MatrixSettings", "make"]


def make(name: str, settings: MatrixSettings) -> Channel:
    """Create the channel. Its modules are imported here, so that a gateway without Matrix does not load them."""
    from semel.channels.matrix.channel import MatrixChannel

    return MatrixChannel(name, settings)
