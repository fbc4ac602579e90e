"""Download the files of Telegram's messages."""

from __future__ import annotations

from semel.channels.downloads import FileFetcher, FileNotGiven, FileNotNow
from semel.channels.telegram.message_content import MAX_FETCH_BYTES, TelegramFile
from semel.channels.telegram.transport import BotApi
from semel.gateway.ports import Inbox, Kept


class TelegramFetcher(FileFetcher[TelegramFile]):
    """Downloads files by their ids."""

    def __init__(self, api: BotApi, is_enabled: bool) -> None:
        super().__init__(is_enabled, MAX_FETCH_BYTES, "it is larger than the 20 MB that Telegram gives to bots")
        self._api = api

    async def _download(self, file: TelegramFile, inbox: Inbox) -> Kept:
        reply = await self._api.call("getFile", {"file_id": file.id})
        if not reply.ok and 400 <= reply.status < 500 and reply.status != 429 and reply.is_bot_api:
            raise FileNotGiven(f"Telegram does not give it: {reply.error_text}")
        if not reply.ok or not isinstance(reply.result, dict):
            raise FileNotNow(f"Telegram does not tell where it is: HTTP {reply.status}", reply.retry_after)
        path = str(reply.result.get("file_path") or "")
        if not path or path.startswith("/"):
            raise FileNotGiven("the Bot API server keeps it on its own disk (it runs with --local)")
        size = int(reply.result.get("file_size") or 0)
        return await self._keep(file, self._api.download(path), inbox, size)
