"""The HTTP face: the API under /v1, its stream, and the page."""

from __future__ import annotations

from semel.faces.http.app import make_app
from semel.faces.http.facade import GatewayFacade
from semel.faces.http.server import CannotListen, Server, serve
from semel.faces.http.settings import Node, Settings, TokenNeeded

__all__ = ["CannotListen", "GatewayFacade", "Node", "Server", "Settings", "TokenNeeded", "make_app", "serve"]
