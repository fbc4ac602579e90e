"""The Discord channel: one bot, over Discord's REST API and its gateway (docs/discord.md).

    settings       the keys of `[channels.NAME]`
    channel        the channel port: run, send, find, typing
    address        addresses, message ids, snowflakes; the cursor
    transport      one REST request and its answer; downloads
    rate_limits    when the next request of a kind may leave

    receive        the loop that reads the gateway and puts events into the inbox
    gateway        one WebSocket connection: hello, heartbeats, identify, resume
    missed         reads what was written while no session could be resumed, page by page
    places         names, parents and roles of servers, channels and threads
    parse          a dispatch of the gateway as inbox events
    parse_text     a message's text: mentions, forwards, what is not text
    downloads      received files
    interactions   slash commands and buttons, acknowledged in time
    app_commands   the gateway's commands, as Discord offers them to people

    send           a part as a request
    receipts       what the answer to a part means
    lookups        the search for a part whose answer was lost
    render         Markdown as Discord shows it

Source: Discord's documentation, API version 10 (https://docs.discord.com/developers).
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec

from semel.channels.discord.settings import DiscordSettings
from semel.gateway.ports import Channel
from semel.installation import find_install_command

__all__ = ["DiscordSettings", "find_missing_packages", "make"]


def find_missing_packages(settings: Collection[str] = ()) -> str:
    """Return what has to be installed first, for people; "" if nothing is missing."""
    if find_spec("websockets") is None:
        return f"discord needs one more package: {find_install_command('discord')}"
    return ""


def make(name: str, settings: DiscordSettings) -> Channel:
    """Create the channel. Its modules are imported here, so that a gateway without Discord does not load them.

    Raises ValueError if its library is not installed.
    """
    if missing := find_missing_packages():
        raise ValueError(missing)
    from semel.channels.discord.channel import DiscordChannel

    return DiscordChannel(name, settings)
