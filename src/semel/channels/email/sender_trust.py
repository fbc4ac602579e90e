"""Verify a mail's sender by the Authentication-Results of *our own* mail server (RFC 8601, RFC 7489).

Anybody can write any From line. Our server checks signatures and senders when a mail arrives, and adds its results at
the top as an Authentication-Results line, which begins with the server's name (its authserv-id):

    Authentication-Results: mx.example.org; dmarc=pass header.from=example.org; dkim=pass header.d=example.org

Only the topmost line with that name is believed: each server adds its own above what came. A line of any other name
may have been written by the sender. A mail is verified if a method that counts passed *for the domain of the From
line*, and DMARC did not fail.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from semel.channels.email.parse_headers import Mail, Mailbox, lines

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_PIECE = re.compile(r'(?:[^;"]|"(?:[^"\\]|\\.)*"|")+')
_RESULT = re.compile(r"\s*([a-z][a-z0-9-]*)\s*(?:/\s*[0-9]+\s*)?=\s*([a-z]+)\b")
_VALUE = r'(?:[^\s;"]|"(?:[^"\\]|\\.)*")+'
_PROPERTY = re.compile(rf"([a-z]+(?:\.[a-z0-9_-]+)?)\s*=\s*({_VALUE})|{_VALUE}")
_ABOUT = {
    "dmarc": ("header.from",),
    "dkim": ("header.d", "header.i"),
    "spf": ("smtp.mailfrom", "smtp.mail"),
    "auth": ("smtp.auth",),
}


@dataclass(frozen=True)
class Result:
    """The result of one method. `properties` is like {"header.d": "example.org"}; everything is in lower case."""

    method: str
    value: str
    properties: dict[str, str]


def verified(mail: Mail, sender: Mailbox, servers: Collection[str], methods: Collection[str]) -> str | None:
    """The method that verified the sender, such as "dmarc", or None if the sender is unverified."""
    if not sender.sure:
        return None
    results = of_our_server(mail, servers)
    if any(each.method == "dmarc" and each.value in ("fail", "permerror", "temperror") for each in results):
        return None
    for each in results:
        if each.value == "pass" and each.method in methods and _is_about(each, sender.address):
            return each.method
    return None


def of_our_server(mail: Mail, servers: Collection[str]) -> list[Result]:
    """The results in the topmost line of our server; empty if it wrote none."""
    for line in lines(mail, "authentication-results"):
        name, results = parse(line)
        if name in servers:
            return results
    return []


def parse(line: str) -> tuple[str, list[Result]]:
    """(authserv-id, results) of one line. What cannot be read is left out."""
    pieces = _PIECE.findall(_without_comments(line.lower()))
    head = pieces[0].split() if pieces else []
    results = []
    for piece in pieces[1:]:
        if found := _RESULT.match(piece):
            rest = piece[found.end() :]
            values = {name: _bare(value) for name, value in reversed(_PROPERTY.findall(rest)) if name}
            results.append(Result(found[1], found[2], values))
    return (_bare(head[0]) if head else ""), results


def _is_about(result: Result, address: str) -> bool:
    """Whether the result is about the From address, and not about another domain that took part in sending."""
    domain = address.rpartition("@")[2]
    told = next((result.properties[name] for name in _ABOUT[result.method] if name in result.properties), None)
    if told is None:
        return result.method == "dmarc"  # DMARC always concerns the From line
    if result.method == "auth":
        return told == address
    told = told.rpartition("@")[2].rstrip(".")
    return told == domain or (result.method == "dkim" and "." in told and domain.endswith(f".{told}"))


def _without_comments(line: str) -> str:
    """The line without (comments), which may nest; parentheses in quoted strings are kept."""
    kept: list[str] = []
    depth, at = 0, 0
    while at < len(line):
        char = line[at]
        if char == '"' and not depth and (quoted := _QUOTED.match(line, at)):
            kept.append(quoted[0])
            at = quoted.end()
            continue
        if char == "\\" and depth:
            at += 1
        elif char == "(":
            depth += 1
        elif char == ")" and depth:
            depth -= 1
            kept.append(" ")
        elif not depth:
            kept.append(char)
        at += 1
    return "".join(kept)


def _bare(value: str) -> str:
    """A value without its quotation marks, if it is one quoted string."""
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if _QUOTED.fullmatch(value) else value
