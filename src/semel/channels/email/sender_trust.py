"""Verify a mail's sender by the Authentication-Results of *our own* mail server (RFC 8601, RFC 7489), and recognize
automatic mail.

Anybody can write any From line. Our server checks signatures and senders when a mail arrives, and adds its results at
the top as an Authentication-Results line, which begins with the server's name (its authserv-id):

    Authentication-Results: mx.example.org; dmarc=pass header.from=example.org; dkim=pass header.d=example.org

Only the topmost line with that name is believed: each server adds its line above those that came with the mail. A line
with any other name may have been written by the sender. A sender is verified if DMARC did not fail and one of the
methods in the setting `verified_by` passed *for the domain of the From line*.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from semel.channels.email.parse_headers import Mail, Mailbox, header_values
from semel.channels.email.parse_headers import header_value as line

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_PIECE = re.compile(r'(?:[^;"]|"(?:[^"\\]|\\.)*"|")+')
_RESULT = re.compile(r"\s*([a-z][a-z0-9-]*)\s*(?:/\s*[0-9]+\s*)?=\s*([a-z]+)\b")
_VALUE = r'(?:[^\s;"]|"(?:[^"\\]|\\.)*")+'
_PROPERTY = re.compile(rf"([a-z]+(?:\.[a-z0-9_-]+)?)\s*=\s*({_VALUE})|{_VALUE}")
_IDENTITY_PROPERTIES = {
    "dmarc": ("header.from",),
    "dkim": ("header.d", "header.i"),
    "spf": ("smtp.mailfrom", "smtp.mail"),
    "auth": ("smtp.auth",),
}


@dataclass(frozen=True)
class AuthenticationResult:
    """The result of one authentication method, such as `dkim=pass`, in lower case.

    `properties`: what the method checked, such as {"header.d": "example.org"}.
    """

    method: str
    value: str
    properties: dict[str, str]


def find_verifying_method(
    mail: Mail, sender: Mailbox, servers: Collection[str], methods: Collection[str]
) -> str | None:
    """Return the method that verified the sender, such as "dmarc"; None if the sender is unverified.

    `servers`: the names of our own server. `methods`: those that may verify a sender.
    """
    if not sender.is_unambiguous:
        return None
    results = find_own_results(mail, servers)
    if any(result.method == "dmarc" and result.value in ("fail", "permerror", "temperror") for result in results):
        return None
    for result in results:
        if result.value == "pass" and result.method in methods and _is_about(result, sender.address):
            return result.method
    return None


def find_own_results(mail: Mail, servers: Collection[str]) -> list[AuthenticationResult]:
    """Return the results in the topmost line of our server; an empty list if there is no such line.

    `servers`: the names of our own server.
    """
    for value in header_values(mail, "authentication-results"):
        name, results = parse_results(value)
        if name in servers:
            return results
    return []


def parse_results(line: str) -> tuple[str, list[AuthenticationResult]]:
    """Parse one Authentication-Results line. Returns (authserv-id, results); what cannot be read is left out."""
    pieces = _PIECE.findall(_remove_comments(line.lower()))
    head = pieces[0].split() if pieces else []
    results = []
    for piece in pieces[1:]:
        if match := _RESULT.match(piece):
            properties = piece[match.end() :]
            values = {name: _unquote(value) for name, value in reversed(_PROPERTY.findall(properties)) if name}
            results.append(AuthenticationResult(match[1], match[2], values))
    return (_unquote(head[0]) if head else ""), results


def _is_about(result: AuthenticationResult, address: str) -> bool:
    """Whether the result is about the From address, and not about another domain that took part in sending."""
    domain = address.rpartition("@")[2]
    identity = next(
        (result.properties[name] for name in _IDENTITY_PROPERTIES[result.method] if name in result.properties), None
    )
    if identity is None:
        return result.method == "dmarc"  # DMARC always concerns the From line
    if result.method == "auth":
        return identity == address
    identity = identity.rpartition("@")[2].rstrip(".")
    return identity == domain or (result.method == "dkim" and "." in identity and domain.endswith(f".{identity}"))


def _remove_comments(line: str) -> str:
    """Return the line without its comments, which are in parentheses and may be nested. Quoted strings are kept."""
    pieces: list[str] = []
    depth, position = 0, 0
    while position < len(line):
        char = line[position]
        if char == '"' and not depth and (match := _QUOTED.match(line, position)):
            pieces.append(match[0])
            position = match.end()
            continue
        if char == "\\" and depth:
            position += 1
        elif char == "(":
            depth += 1
        elif char == ")" and depth:
            depth -= 1
            pieces.append(" ")
        elif not depth:
            pieces.append(char)
        position += 1
    return "".join(pieces)


def _unquote(value: str) -> str:
    """Return the content of a quoted string; return any other value unchanged."""
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if _QUOTED.fullmatch(value) else value


_PRECEDENCE = ("bulk", "junk", "list", "auto_reply", "auto-reply")
_AUTOMATIC_HEADERS = (
    "list-id",
    "list-unsubscribe",
    "x-autoreply",
    "x-autorespond",
    "x-autorespond-to",
    "x-loop",
    "feedback-id",
)
_AUTOMATIC_SENDERS = (
    "mailer-daemon",
    "postmaster",
    "noreply",
    "no-reply",
    "donotreply",
    "do-not-reply",
    "bounce",
    "bounces",
)


def find_automatic_mark(mail: Mail, sender: str) -> str | None:
    """Return the header that shows that a program sent the mail (RFC 3834); None if a person seems to have written it.

    Automatic replies, mailing lists and newsletters do not wake the agent (Law 2); otherwise two programs could answer
    each other endlessly.
    """
    auto_submitted = line(mail, "auto-submitted").lower().split(";")[0].strip()
    if auto_submitted and auto_submitted != "no":
        return f"Auto-Submitted: {auto_submitted[:60]}"
    precedence = line(mail, "precedence").lower()
    if precedence in _PRECEDENCE:
        return f"Precedence: {precedence}"
    for name in _AUTOMATIC_HEADERS:
        if header_values(mail, name):
            return name.title()
    if header_values(mail, "return-path") and line(mail, "return-path") == "<>":
        return "Return-Path: <>"
    if sender.partition("@")[0] in _AUTOMATIC_SENDERS:
        return f"From: {sender}"
    return None
