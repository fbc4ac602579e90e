"""Download the files of people's messages.

Teams does not promise to post a message again. So a file that cannot be fetched now never keeps its message back: after
a few attempts the message is heard without it.
"""

from __future__ import annotations

from semel.channels.downloads import FileFetcher, FileNotGiven, FileNotNow
from semel.channels.teams.files import TeamsFile
from semel.channels.teams.transport import TeamsApi
from semel.gateway.ports import Inbox, Kept, NotSent, Offline, Unknown


class TeamsFetcher(FileFetcher[TeamsFile]):
    """Downloads files of one bot. `limit`: the largest one, in bytes."""

    def __init__(self, api: TeamsApi, is_enabled: bool, limit: int) -> None:
        super().__init__(is_enabled, limit)
        self._api = api

    async def _download(self, file: TeamsFile, inbox: Inbox) -> Kept:
        if file.why:
            raise FileNotGiven(file.why)
        try:
            if file.service_url:
                content = await self._api.download_picture(file.url, file.service_url)
            else:
                content = self._api.download_file(file.url)
            return await self._keep(file, content, inbox, file.size)
        except (Offline, NotSent) as error:
            raise FileNotNow(str(error), error.retry_after) from None
        except Unknown as error:
            raise FileNotNow(str(error)) from None
