"""Parse an agent's JSON-RPC answers to our requests, tolerant of its deviations from ACP."""

from __future__ import annotations

from semel.agents.acp.wire import Id, Reply
from semel.gateway.ports import Answered, Json


def describe_rpc_error(error: Json) -> str:
    """A JSON-RPC error as text for people: its message, plus the detail in its `data` if that says more."""
    message = str(error.get("message") or f"error {error.get('code')}")
    data = error.get("data")
    more = data if isinstance(data, str) else None
    if isinstance(data, dict):
        more = next((data[k] for k in ("details", "message", "error", "reason") if isinstance(data.get(k), str)), None)
    return f"{message}: {more}" if more and more not in message else message


class RpcError(Exception):
    """The agent answered a request with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(describe_rpc_error(error))
        self.code = error.get("code")


def normalize_id(id: Id) -> Id:
    """Convert a reply's id to the integer that we sent; some agents return it as text or as a float."""
    if isinstance(id, float) and id.is_integer():
        return int(id)
    return int(id) if isinstance(id, str) and id.isdecimal() and len(id) < 20 else id


def answered(reply: Reply) -> Answered:
    """The response to a prompt, as a signal. Its `meta` is the response's `_meta`, plus `usage` if that is given;
    for an error, the error's code and data."""
    if reply.error is not None:
        facts: Json = {name: reply.error[name] for name in ("code", "data") if name in reply.error}
        return Answered("error", describe_rpc_error(reply.error), facts)
    result = reply.result if isinstance(reply.result, dict) else {}
    stop = result.get("stopReason")
    meta: Json = dict(result["_meta"]) if isinstance(result.get("_meta"), dict) else {}
    if isinstance(result.get("usage"), dict):
        meta.setdefault("usage", result["usage"])
    return Answered(stop if isinstance(stop, str) and stop else "end_turn", None, meta)
