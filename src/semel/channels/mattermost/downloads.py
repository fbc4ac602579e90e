"""Download the files of Mattermost's posts."""

from __future__ import annotations

from semel.channels.downloads import FileFetcher
from semel.channels.mattermost.parse import MattermostFile
from semel.channels.mattermost.transport import MattermostApi
from semel.gateway.ports import Inbox, Kept


class MattermostFetcher(FileFetcher[MattermostFile]):
    """Downloads files with the bot's token. `limit`: the largest one, in bytes."""

    def __init__(self, api: MattermostApi, is_enabled: bool, limit: int) -> None:
        super().__init__(is_enabled, limit)
        self._api = api

    async def _download(self, file: MattermostFile, inbox: Inbox) -> Kept:
        return await self._keep(file, self._api.download(file.id), inbox, file.size)
