"""Whether a mail is from whom it says (RFC 8601, 7489): what *our own* server found out about it.

Anybody can write any From line. Our server checks signatures and senders as a mail arrives and writes what it found
into an Authentication-Results line at the top of it, which begins with the server's name (its authserv-id):

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
    """One method's: {"header.d": "example.org"} and the like, in lower case."""

    method: str
    value: str
    properties: dict[str, str]


def verified(mail: Mail, sender: Mailbox, servers: Collection[str], methods: Collection[str]) -> str | None:
    """How it was verified, such as "dmarc"; None: it was not."""
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
    """What the topmost line of our server says; empty where it wrote none."""
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
    """Whether it passed for this sender, and not for whoever else sent the mail."""
    domain = address.rpartition("@")[2]
    told = next((result.properties[name] for name in _ABOUT[result.method] if name in result.properties), None)
    if told is None:
        return result.method == "dmarc"  # it is about the From line by what it is
    if result.method == "auth":
        return told == address
    told = told.rpartition("@")[2].rstrip(".")
    return told == domain or (result.method == "dkim" and "." in told and domain.endswith(f".{told}"))


def _without_comments(line: str) -> str:
    """Without (comments), which nest, outside of quoted strings."""
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
    """Without its quotation marks, where they hold all of it."""
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if _QUOTED.fullmatch(value) else value
