"""What `[channels.NAME]` may hold with `kind = "whatsapp"`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from semel.channels.problems import check_url, explain, find_file_limit_problems, find_seconds_problems, raise_problems

DEFAULT_API = "https://graph.facebook.com/v25.0"
_TOKEN = re.compile(r"[\x21-\x7e]{20,1000}")
_NUMBER_ID = re.compile(r"[0-9]{5,25}")
_APP_SECRET = re.compile(r"[0-9a-fA-F]{32}")
_TEMPLATE = re.compile(r"[a-z0-9_]{1,512}")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(_[A-Za-z]{2,4})?")


@dataclass(frozen=True)
class WhatsAppSettings:
    """One business phone number, over Meta's Cloud API. Times are seconds, sizes bytes."""

    phone_number_id: str
    """The id of the business phone number (not the number itself)."""
    token: str = field(repr=False)
    """The access token of a system user, with the permission whatsapp_business_messaging."""
    app_secret: str = field(repr=False)
    """The app's secret, by which Meta signs what it sends."""
    verify_token: str = field(repr=False)
    """Any text of 16 or more characters, which you also enter at Meta: it confirms the address of the webhook."""
    template: str | None = None
    """The name of an approved template with one variable in its body. It carries a text to people who wrote last more
    than 24 hours ago. Without one, such a message is rejected, and you are told."""
    template_language: str = "en"
    """The language of the template, as Meta writes it, such as "en_US"."""
    quotes: bool = False
    """Whether an answer quotes the message that it answers, also in a conversation of two."""
    previews: bool = False
    """Whether links in messages show a preview."""
    fetch: bool = True
    """Whether files that people send are downloaded."""
    file_limit: int = 100_000_000
    """The most bytes of a file that is received or sent."""
    settle: float = 15.0
    """How long after a lost answer the status report of the message is waited for, before the message is held."""
    pace: float = 0.2
    """The minimum time between two messages to one person."""
    timeout: float = 30.0
    """How long to wait for an answer, once connected. Files get a second more for each 100 kB."""
    api: str = DEFAULT_API
    """The URL of the Graph API, with its version."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "api", self.api.rstrip("/"))
        raise_problems(self._find_problems())

    def _find_problems(self) -> Iterator[str]:
        if not _NUMBER_ID.fullmatch(self.phone_number_id):
            yield "phone_number_id should be the digits under WhatsApp, API Setup; it is not the phone number"
        if not _TOKEN.fullmatch(self.token):
            yield "token should be the access token of a system user, like EAA..."
        if not _APP_SECRET.fullmatch(self.app_secret):
            yield "app_secret should be 32 hexadecimal digits; it is under App settings, Basic"
        if len(self.verify_token) < 16:
            yield "verify_token should have 16 or more characters; make one with 'openssl rand -hex 16'"
        if self.template is not None and not _TEMPLATE.fullmatch(self.template):
            yield "template should be the name of a template: lower-case letters, digits and _"
        if not _LANGUAGE.fullmatch(self.template_language):
            yield "template_language should be a language as Meta writes it, such as en or en_US"
        yield from explain(check_url, "api", self.api, example=DEFAULT_API)
        yield from find_file_limit_problems(self.file_limit)
        yield from find_seconds_problems(self, "settle", "pace", "timeout")

    @property
    def account(self) -> str:
        """The id of the business phone number and the API's host."""
        import httpx2

        return f"number {self.phone_number_id} at {httpx2.URL(self.api).host}"
