"""Read and check the tokens of `[nodes.NAME]`."""

from __future__ import annotations

from collections.abc import Mapping

from semel.faces.config import kinds
from semel.faces.config.model import Node
from semel.faces.config.problems import ConfigError, line_of
from semel.faces.http.settings import Node as NodeSettings

MIN_TOKEN_CHARS = 16  # minimum length of a token in characters


def check(nodes: Mapping[str, Node], place: kinds.ConfigSource) -> tuple[NodeSettings, ...]:
    """The nodes with their tokens. Raises ConfigError for an unusable token, or one that two nodes share."""
    known: dict[str, str] = {}
    for name, node in nodes.items():
        token = kinds.secret(node.token, f'[nodes.{name}] "token"', place).strip()
        line = line_of(place.text, ("nodes", name, "token"))
        where = f"{place.name}:{line}: [nodes.{name}]"
        if len(token) < MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError(
                f"{where} token is not {MIN_TOKEN_CHARS} or more letters, digits and signs without a blank"
            )
        if token in known:
            raise ConfigError(f"{where} has the token of [nodes.{known[token]}]: each node needs its own")
        known[token] = name
    return tuple(NodeSettings(name, token, tuple(nodes[name].sessions)) for token, name in known.items())
