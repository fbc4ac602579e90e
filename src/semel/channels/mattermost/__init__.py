"""The Mattermost channel: one bot account, over Mattermost's REST API and its WebSocket (docs/mattermost.md).

    settings       the keys of `[channels.NAME]`
    channel        the channel port: run, send, find, typing
    address        addresses, ids, the cursor
    transport      one REST request and its answer; downloads

    receive        the loop that reads the WebSocket and puts events into the inbox
    sockets        one WebSocket connection
    directory      who the bot is; names of people and channels
    history        pages of a channel's posts
    parse          an event or a post as inbox events
    downloads      received files

    send           a part as a request, and the search for a part whose answer was lost
    receipts       what the answer to a part means
    render         Markdown as Mattermost shows it

Source: Mattermost's API reference, version 4 (https://docs.mattermost.com/api/reference).
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec

from semel.channels.mattermost.settings import MattermostSettings
from semel.gateway.ports import Channel
from semel.installation import find_install_command

__all__ = ["MattermostSettings", "find_missing_packages", "make"]


def find_missing_packages(settings: Collection[str] = ()) -> str:
    """Return what has to be installed first, for people; "" if nothing is missing."""
    if find_spec("websockets") is None:
        return f"mattermost needs one more package: {find_install_command('mattermost')}"
    return ""


def make(name: str, settings: MattermostSettings) -> Channel:
    """Create the channel. Its modules are imported here, so that a gateway without Mattermost does not load them.

    Raises ValueError if its library is not installed.
    """
    if missing := find_missing_packages():
        raise ValueError(missing)
    from semel.channels.mattermost.channel import MattermostChannel

    return MattermostChannel(name, settings)
