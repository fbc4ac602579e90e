"""Slack: an app in one workspace, over the Web API and either Socket Mode or the Events API. See docs/slack.md.

    settings     the keys of `[channels.NAME]`
    channel      the channel port: run, send, find, typing, receive
    transport    one call of the Web API, and the download and upload of a file
    account      who the bot is, which scopes it has, and the names of people and rooms
    address      addresses, message ids and the cursor

    receive      the loop that reads: backfill, then events as they come
    sockets      Socket Mode: one WebSocket connection, and its acknowledgements
    events_http  the Events API: check a request's signature, and answer it after the commit
    backfill     what was written while nobody listened, from the history of each conversation
    parse        an event, a message of the history or a press of a button as `Incoming`
    parse_text   a text in Slack's mark-up as plain text
    downloads    received files

    send         an `Op` as a call
    receipts     what the answer to a call means
    render       Markdown as Slack shows it
    emoji        reactions: Slack's names and the characters

Sources: https://docs.slack.dev/reference/methods, https://docs.slack.dev/apis/events-api.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Collection

from semel.channels.slack.settings import SlackSettings
from semel.gateway.ports import Channel
from semel.installation import find_install_command

__all__ = ["SlackSettings", "find_missing_packages", "make"]


def find_missing_packages(settings: Collection[str]) -> str:
    """Return what has to be installed first, for people; "" if nothing is missing. `settings`: those that are set."""
    if "app_token" in settings and importlib.util.find_spec("websockets") is None:
        return f"Slack's Socket Mode needs websockets: {find_install_command('slack')}"
    return ""


def make(name: str, settings: SlackSettings) -> Channel:
    """Create the channel. Its modules are imported here, so that a gateway without Slack does not load them.

    Raises ValueError if its library is not installed.
    """
    if missing := find_missing_packages(("app_token",) if settings.app_token is not None else ()):
        raise ValueError(missing)
    from semel.channels.slack.channel import SlackChannel

    return SlackChannel(name, settings)
