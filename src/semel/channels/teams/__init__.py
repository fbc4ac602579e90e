"""The Microsoft Teams channel: a bot of one's own, over the Bot Connector's REST API (docs/teams.md).

    settings         the keys of `[channels.NAME]`
    channel          the channel port: run, send, typing, receive
    transport        one REST call, with the bot's access token
    address          addresses and message ids
    places           the conversations behind addresses, and where they are served; the cursor

    authentication   check the token of a request
    receive          put what a request holds, answer it after the commit
    parse            an activity as inbox events
    downloads        the files of messages
    consents         bring a file to the person who agreed to it

    send             an `Op` as a call
    receipts         what the answer to a call means
    render           Markdown as Teams shows it
    cards            a text with buttons as an Adaptive Card
    files            files as attachments, and the offer of a file

Source: the Bot Connector's reference
(https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-api-reference) and Teams' pages on
bots (https://learn.microsoft.com/microsoftteams/platform/bots).
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec

from semel.channels.teams.settings import TeamsSettings
from semel.gateway.ports import Channel
from semel.installation import find_install_command

__all__ = ["ACCOUNT_ID", "EXAMPLE_ID", "TeamsSettings", "find_missing_packages", "make"]

ACCOUNT_ID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|29:[A-Za-z0-9_-]{1,110}"
"""A person: their object id in Microsoft Entra; of somebody without one, the id that Teams gives them for the bot."""
EXAMPLE_ID = "7faf8ab2-3d56-4244-b585-20c8a42ed2b8"


def find_missing_packages(settings: Collection[str] = ()) -> str:
    """Return what has to be installed first, for people; "" if nothing is missing."""
    if find_spec("jwt") is None or find_spec("cryptography") is None:
        return f"teams needs one more package: {find_install_command('teams')}"
    return ""


def make(name: str, settings: TeamsSettings) -> Channel:
    """Create the channel. Its modules are imported here, so that a gateway without Teams does not load them.

    Raises ValueError if its library is not installed.
    """
    if missing := find_missing_packages():
        raise ValueError(missing)
    from semel.channels.teams.channel import TeamsChannel

    return TeamsChannel(name, settings)
