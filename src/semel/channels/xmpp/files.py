"""Upload our files to the server (XEP-0363), and download files that people link (XEP-0066) within limits."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import Element

from semel.channels.http import Answer, request
from semel.channels.xmpp.session import Refused, Session
from semel.channels.xmpp.xml import (
    CLIENT,
    DISCO_ITEMS,
    FORM,
    UPLOAD,
    add,
    child,
    every,
    make,
    said,
)
from semel.gateway.ports import Inbox, Kept, Missing, NotSent, Op, Rejected, TooLarge, Unknown

TRANSFER = 60.0
"""Time limit for the transfer of one file, in seconds."""
MAY_SET = frozenset({"authorization", "cookie", "expires"})
"""Headers that a server may ask us to send with a file (XEP-0363, 4)."""


class Store:
    """The upload service of the account's server, looked up once per connection."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._found: tuple[str, int | None] | None = None

    async def put(self, op: Op) -> str:
        """Upload an op's file and return its URL. The message is not sent yet: raises NotSent, Rejected or Offline."""
        if op.file is None:
            raise Rejected("there is no file to send")
        service, most = await self._service()
        try:
            content = await asyncio.to_thread(op.file.read_bytes)
        except OSError as gone:
            raise Rejected(f"the file is not there any more: {gone.strerror}") from None
        if most is not None and len(content) > most:
            raise Rejected(f"the file has {len(content)} bytes; {service} takes at most {most}")
        name, mime = op.name or op.file.name, op.mime or "application/octet-stream"
        put, headers, get = await self._slot(service, name, len(content), mime)
        await _transfer(put, content, {**headers, "content-type": mime}, self.session)
        return get

    async def _service(self) -> tuple[str, int | None]:
        if self._found is None:
            self._found = await self._look()
        return self._found

    async def _look(self) -> tuple[str, int | None]:
        """The service's address and maximum file size in bytes. Raises Rejected if there is no service."""
        domain = self.session.settings.domain
        iq = make("iq", CLIENT, type_="get", to=domain)
        add(iq, "query", DISCO_ITEMS)
        try:
            query = child(await self.session.ask(iq), "query", DISCO_ITEMS)
        except Refused:
            query = None
        items = [each.get("jid", "") for each in every(query, "item", DISCO_ITEMS)] if query is not None else []
        for jid in (domain, *filter(None, items[:50])):
            try:
                features, told = await self.session.features(jid)
            except Refused:
                continue
            if UPLOAD in features:
                return jid, _most(told)
        raise Rejected(f"{domain} takes no files (XEP-0363)")

    async def _slot(self, service: str, name: str, size: int, mime: str) -> tuple[str, dict[str, str], str]:
        iq = make("iq", CLIENT, type_="get", to=service)
        add(iq, "request", UPLOAD, filename=name, size=str(size), **{"content-type": mime})
        try:
            answer = await self.session.ask(iq)
        except Refused as no:
            if no.type == "wait":
                raise NotSent(str(no), 60.0) from None
            raise Rejected(str(no)) from None
        slot = child(answer, "slot", UPLOAD)
        put, get = (child(slot, name, UPLOAD) if slot is not None else None for name in ("put", "get"))
        if put is None or get is None or not put.get("url") or not get.get("url"):
            raise NotSent(f"{service} gave no place to put the file")
        told = {(each.get("name") or "").lower(): each.text or "" for each in every(put, "header", UPLOAD)}
        headers = {name: " ".join(value.split()) for name, value in told.items() if name in MAY_SET}
        return put.get("url", ""), headers, get.get("url", "")


def _most(query: Element | None) -> int | None:
    fields = (field for x in every(query, "x", FORM) for field in every(x, "field", FORM)) if query is not None else ()
    for each in fields:
        value = said(each, "value", FORM)
        if each.get("var") == "max-file-size" and value.isascii() and value.isdigit():
            return int(value)
    return None


async def _transfer(url: str, content: bytes, headers: dict[str, str], session: Session) -> None:
    """Make one PUT. Every failure is NotSent or Rejected, because the message itself was not sent yet."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise Rejected("the server wants the file in a way that is not HTTP")
    try:
        answer = await request(
            "PUT",
            url,
            content,
            headers,
            timeout=TRANSFER,
            allow_private=session.settings.allow_private,
            tls=session.trust,
        )
    except Unknown as lost:
        raise NotSent(f"the file was not put: {lost}") from None
    if 200 <= answer.status < 300:
        return
    if answer.status in (408, 429) or answer.status >= 500:
        raise NotSent(f"the file was not put: HTTP {answer.status}")
    raise Rejected(f"the server does not take the file: HTTP {answer.status}")


async def fetch(url: str, inbox: Inbox, session: Session) -> Kept | Missing:
    """Download a linked file into the store, or say why it is missing. One attempt; raises only the store's errors."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return Missing("file", "its address cannot be read")
    name = unquote(Path(parts.path).name)[:200] or "file"
    mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
    if parts.scheme == "aesgcm":
        return Missing(name, "it is encrypted with OMEMO, which cannot be read here", mime)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return Missing(name, f"{parts.scheme or 'that'}: is not a way to fetch it", mime)
    most = session.settings.file_limit
    try:
        answer = await request(
            "GET", url, None, {"accept-encoding": "identity"}, timeout=TRANSFER,
            allow_private=session.settings.allow_private, tls=session.trust, most=most + 1,
        )  # fmt: skip
    except (NotSent, Unknown) as lost:
        return Missing(name, str(lost), mime)
    except ValueError:
        return Missing(name, "its address cannot be read", mime)
    if answer.status != 200:
        return Missing(name, f"its server answers {answer.status}", mime)
    told = answer.headers.get("content-length", "")
    if len(answer.body) > most or (told.isascii() and told.isdigit() and int(told) > most):
        return Missing(name, f"it is larger than {most} bytes", mime)
    if told.isascii() and told.isdigit() and int(told) != len(answer.body):
        return Missing(name, "its transfer broke off", mime)
    return await _keep(name, answer, mime, inbox, most)


async def _keep(name: str, answer: Answer, mime: str, inbox: Inbox, most: int) -> Kept | Missing:
    given = answer.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def content() -> AsyncIterator[bytes]:
        yield answer.body

    try:
        return await inbox.keep(name, given if "/" in given else mime, content(), most)
    except TooLarge as large:
        return Missing(name, str(large), mime)
