"""Python clients of a running gateway: `AsyncClient`, and `Client` for programs without an event loop.

The command line, the terminal and `import semel` use them. docs/python.md describes them with examples.
"""

from semel.faces.client.async_client import AsyncClient
from semel.faces.client.connection import NoAnswer, OutcomeUnknown, RequestRefused, quote_segment, session_path
from semel.faces.client.sync_client import Client
from semel.faces.client.wait_for_answer import Answer
from semel.faces.client.watch import EntryUpdate, ItemUpdate, SessionUpdate, Update
from semel.tools.address import GatewayNotTrusted, NoGateway

__all__ = [
    "Answer",
    "AsyncClient",
    "Client",
    "EntryUpdate",
    "GatewayNotTrusted",
    "ItemUpdate",
    "NoAnswer",
    "NoGateway",
    "OutcomeUnknown",
    "RequestRefused",
    "SessionUpdate",
    "Update",
    "quote_segment",
    "session_path",
]
