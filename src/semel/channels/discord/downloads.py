"""Download the files of Discord's messages."""

from __future__ import annotations

from semel.channels.discord.address import parse_message_id
from semel.channels.discord.parse import DiscordFile
from semel.channels.discord.transport import DiscordApi, FileGone
from semel.channels.downloads import FileFetcher
from semel.gateway.ports import Inbox, Kept
from semel.text.json_types import list_at, objects_in

MAX_FETCH_BYTES = 50_000_000


class DiscordFetcher(FileFetcher[DiscordFile]):
    """Downloads files from the addresses that their messages name."""

    def __init__(self, api: DiscordApi, is_enabled: bool) -> None:
        super().__init__(is_enabled, MAX_FETCH_BYTES)
        self._api = api

    async def _download(self, file: DiscordFile, inbox: Inbox) -> Kept:
        try:
            return await self._keep(file, self._api.download(file.url), inbox, file.size)
        except FileGone:  # an address is valid for a day; the message has a new one
            address = await self._find_address(file)
            if address in ("", file.url):
                raise
            return await self._keep(file, self._api.download(address), inbox, file.size)

    async def _find_address(self, file: DiscordFile) -> str:
        channel, message = parse_message_id(file.message)
        reply = await self._api.call("GET", f"/channels/{channel}/messages/{message}")
        attachments = objects_in(list_at(reply.data, "attachments")) if reply.ok else []
        return next((str(each.get("url") or "") for each in attachments if each.get("id") == file.id), "")
