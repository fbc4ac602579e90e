"""The HTTP face: the API under /v1, its stream, and the page."""

from __future__ import annotations

from semel.faces.http.app import make_app
from semel.faces.http.server import CannotListen, Server, serve
from semel.faces.http.settings import NodeSettings, Settings, TokenNeeded

__all__ = ["CannotListen", "NodeSettings", "Server", "Settings", "TokenNeeded", "make_app", "serve"]
