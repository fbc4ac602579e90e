"""Offer Semel's commands as slash commands (https://docs.discord.com/developers/interactions/application-commands).

The whole list is overwritten in one request, which has the same effect however often it is made; and only if it is not
the list that the cursor says is there.
"""

from __future__ import annotations

import hashlib
import json
import logging

from semel.channels.discord.transport import DiscordApi
from semel.gateway.ports import NotSent, Unknown
from semel.law.commands import COMMANDS, Command
from semel.text.json_types import Json

_CHAT_INPUT, _STRING, _INTEGER = 1, 3, 4
_GUILD, _BOT_DM = 0, 1
MAX_DESCRIPTION_CHARS = 100

_log = logging.getLogger("semel.discord")


def list_commands() -> list[Json]:
    """Return Semel's commands as application commands."""
    return [_make_command(command) for command in COMMANDS.values()]


def _make_command(command: Command) -> Json:
    body: Json = {
        "type": _CHAT_INPUT, "name": command.name, "description": command.description[:MAX_DESCRIPTION_CHARS],
        "contexts": [_GUILD, _BOT_DM],
    }  # fmt: skip
    if command.takes != "nothing":
        argument = command.usage.partition("[")[2].rstrip("]").lower()
        body["options"] = [
            {
                "type": _INTEGER if command.takes == "number" else _STRING,
                "name": argument,
                "description": command.usage[:MAX_DESCRIPTION_CHARS],
                "required": False,
            }
        ]
    return body


async def offer_commands(api: DiscordApi, application: str, known: str, offers: bool) -> str:
    """Let Discord offer our commands if they are not those with the digest `known`.

    `application`: its id. `offers`: whether any are offered. Returns the digest of what is there. A failure is logged
    and tried again at the next connection: people can write commands, too.
    """
    commands = list_commands() if offers else []
    digest = hashlib.blake2b(json.dumps(commands).encode(), digest_size=8).hexdigest() if offers else ""
    if digest == known:
        return known
    try:
        reply = await api.call("PUT", f"/applications/{application}/commands", commands)
        if reply.ok:
            return digest
        _log.warning("Discord does not take the slash commands: %s", reply.error_text)
    except (NotSent, Unknown) as error:
        _log.warning("Discord was not told the slash commands: %s", error)
    return known
