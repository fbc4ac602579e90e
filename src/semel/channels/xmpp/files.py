"""Upload our files to the server (XEP-0363), and download files that people link (XEP-0066) within limits."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import Element

from semel.channels.http import HttpAnswer, request
from semel.channels.xmpp import ns
from semel.channels.xmpp.session import IqRefused, XmppSession
from semel.channels.xmpp.xml import child_attribute, child_text, children, find_child, make_element
from semel.gateway.ports import Inbox, Kept, Missing, NotSent, Op, Rejected, TooLarge, Unknown

TRANSFER_TIMEOUT_S = 60.0
"""Time limit for the transfer of one file, in seconds."""
ALLOWED_HEADERS = frozenset({"authorization", "cookie", "expires"})
"""Headers that a server may ask us to send with a file (XEP-0363, 4)."""


class UploadService:
    """The upload service of the account's server, looked up once per connection."""

    def __init__(self, session: XmppSession) -> None:
        self.session = session
        self._service_found: tuple[str, int | None] | None = None

    async def put(self, op: Op) -> str:
        """Upload an op's file and return its URL. Raises NotSent, Rejected or Offline, as no message was sent yet."""
        if op.file is None:
            raise Rejected("there is no file to send")
        service, max_bytes = await self._service()
        try:
            content = await asyncio.to_thread(op.file.read_bytes)
        except OSError as gone:
            raise Rejected(f"the file is not there any more: {gone.strerror}") from None
        if max_bytes is not None and len(content) > max_bytes:
            raise Rejected(f"the file has {len(content)} bytes; {service} takes at most {max_bytes}")
        name, mime = op.name or op.file.name, op.mime or "application/octet-stream"
        put_url, headers, get_url = await self._request_slot(service, name, len(content), mime)
        await _transfer(put_url, content, {**headers, "content-type": mime}, self.session)
        return get_url

    async def _service(self) -> tuple[str, int | None]:
        if self._service_found is None:
            self._service_found = await self._discover_service()
        return self._service_found

    async def _discover_service(self) -> tuple[str, int | None]:
        """Find the service. Returns (its address, the maximum size of a file in bytes or None).

        Raises Rejected if there is no service.
        """
        domain = self.session.settings.domain
        try:
            answer = await self.session.request("get", make_element("query", ns.DISCO_ITEMS), domain)
            items = children(find_child(answer, "query", ns.DISCO_ITEMS), "item", ns.DISCO_ITEMS)
        except IqRefused:
            items = []
        for jid in (domain, *filter(None, (item.get("jid") for item in items[:50]))):
            try:
                features, query = await self.session.discover_features(jid)
            except IqRefused:
                continue
            if ns.UPLOAD in features:
                return jid, _max_bytes(query)
        raise Rejected(f"{domain} takes no files (XEP-0363)")

    async def _request_slot(self, service: str, name: str, size: int, mime: str) -> tuple[str, dict[str, str], str]:
        """Request a place for a file. Returns (URL to upload to, headers to send with the file, URL to share).

        Raises NotSent, Rejected or Offline.
        """
        payload = make_element("request", ns.UPLOAD, filename=name, size=str(size), **{"content-type": mime})
        try:
            answer = await self.session.request("get", payload, service)
        except IqRefused as no:
            if no.type == "wait":
                raise NotSent(str(no), 60.0) from None
            raise Rejected(str(no)) from None
        slot = find_child(answer, "slot", ns.UPLOAD)
        put_url, get_url = (child_attribute(slot, name, ns.UPLOAD, "url") for name in ("put", "get"))
        if not put_url or not get_url:
            raise NotSent(f"{service} gave no address to upload the file to")
        headers = children(find_child(slot, "put", ns.UPLOAD), "header", ns.UPLOAD)
        values = {header.get("name", "").lower(): " ".join((header.text or "").split()) for header in headers}
        return put_url, {name: value for name, value in values.items() if name in ALLOWED_HEADERS}, get_url


def _max_bytes(query: Element | None) -> int | None:
    for form in children(query, "x", ns.FORM):
        for field in children(form, "field", ns.FORM):
            value = child_text(field, "value", ns.FORM)
            if field.get("var") == "max-file-size" and value.isascii() and value.isdigit():
                return int(value)
    return None


async def _transfer(url: str, content: bytes, headers: dict[str, str], session: XmppSession) -> None:
    """Upload a file by one PUT. Every failure is NotSent or Rejected, because the message itself was not sent yet."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise Rejected("the server wants the file uploaded in another way than by HTTP")
    try:
        answer = await request(
            "PUT",
            url,
            content,
            headers,
            timeout=TRANSFER_TIMEOUT_S,
            allow_private=session.settings.allow_private,
            tls=session.trust,
        )
    except Unknown as lost:
        raise NotSent(f"the file was not uploaded: {lost}") from None
    if 200 <= answer.status < 300:
        return
    if answer.status in (408, 429) or answer.status >= 500:
        raise NotSent(f"the file was not uploaded: HTTP {answer.status}")
    raise Rejected(f"the server does not take the file: HTTP {answer.status}")


async def fetch(url: str, inbox: Inbox, session: XmppSession) -> Kept | Missing:
    """Download a linked file into the store by one attempt. Returns the stored file, or a `Missing` that says why there
    is none. Raises only the store's errors."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return Missing("file", "its address cannot be read")
    name = unquote(Path(parts.path).name)[:200] or "file"
    mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
    if parts.scheme == "aesgcm":
        return Missing(name, "it is encrypted with OMEMO, which cannot be read here", mime)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return Missing(name, "its address is neither http: nor https:", mime)
    limit = session.settings.file_limit
    try:
        answer = await request(
            "GET", url, None, {"accept-encoding": "identity"}, timeout=TRANSFER_TIMEOUT_S,
            allow_private=session.settings.allow_private, tls=session.trust, most=limit + 1,
        )  # fmt: skip
    except (NotSent, Unknown) as lost:
        return Missing(name, str(lost), mime)
    except ValueError:
        return Missing(name, "its address cannot be read", mime)
    if answer.status != 200:
        return Missing(name, f"its server answers {answer.status}", mime)
    length = answer.headers.get("content-length", "")
    if len(answer.body) > limit or (length.isascii() and length.isdigit() and int(length) > limit):
        return Missing(name, f"it is larger than {limit} bytes", mime)
    if length.isascii() and length.isdigit() and int(length) != len(answer.body):
        return Missing(name, "its transfer broke off", mime)
    return await _keep(name, answer, mime, inbox, limit)


async def _keep(name: str, answer: HttpAnswer, mime: str, inbox: Inbox, limit: int) -> Kept | Missing:
    content_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def content() -> AsyncIterator[bytes]:
        yield answer.body

    try:
        return await inbox.keep(name, content_type if "/" in content_type else mime, content(), limit)
    except TooLarge as large:
        return Missing(name, str(large), mime)
