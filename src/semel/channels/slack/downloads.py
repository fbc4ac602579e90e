"""Download the files of Slack's messages."""

from __future__ import annotations

from semel.channels.downloads import FileFetcher, FileNotGiven, FileNotNow
from semel.channels.slack.parse import SlackFile, parse_file
from semel.channels.slack.transport import SlackApi
from semel.gateway.ports import Inbox, Kept
from semel.text.json_types import object_at


class SlackFetcher(FileFetcher[SlackFile]):
    """Downloads files with the bot's token. `limit`: the largest one, in bytes."""

    def __init__(self, api: SlackApi, is_enabled: bool, limit: int) -> None:
        super().__init__(is_enabled, limit)
        self._api = api

    async def _download(self, file: SlackFile, inbox: Inbox) -> Kept:
        if file.url is None and not file.why:
            file = await self._ask(file)
        if file.url is None or file.why:
            raise FileNotGiven(file.why or "Slack does not say where it is")
        return await self._keep(file, self._api.download(file.url), inbox, file.size)

    async def _ask(self, file: SlackFile) -> SlackFile:
        """Return a file of which the message has only the id, as those of other workspaces (Slack Connect)."""
        reply = await self._api.call("files.info", file=file.id)
        if not reply.ok and (reply.status != 200 or not reply.error):
            raise FileNotNow(f"Slack does not tell where it is: {reply.describe()}", reply.retry_after)
        if not reply.ok:
            raise FileNotGiven(f"Slack does not give it: {reply.describe()}")
        return parse_file({"id": file.id, **object_at(reply.data, "file")})
