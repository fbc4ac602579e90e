"""Nodes: the tokens that `[nodes.NAME]` refers to, read and checked."""

from __future__ import annotations

from collections.abc import Mapping

from semel.faces.config import kinds
from semel.faces.config.model import Node
from semel.faces.config.problems import ConfigError, line_of
from semel.faces.http.settings import Node as NodeSettings

LEAST = 16  # characters of a token


def check(nodes: Mapping[str, Node], place: kinds.Place) -> tuple[NodeSettings, ...]:
    """The nodes with their tokens. Raises ConfigError where one has none, or two have the same."""
    known: dict[str, str] = {}
    for name, node in nodes.items():
        token = kinds.secret(node.token, f'[nodes.{name}] "token"', place).strip()
        line = line_of(place.text, ("nodes", name, "token"))
        where = f"{place.name}:{line}: [nodes.{name}]"
        if len(token) < LEAST or not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError(f"{where} token is not {LEAST} or more letters, digits and signs without a blank")
        if token in known:
            raise ConfigError(f"{where} has the token of [nodes.{known[token]}]: each node needs its own")
        known[token] = name
    return tuple(NodeSettings(name, token, tuple(nodes[name].sessions)) for token, name in known.items())
