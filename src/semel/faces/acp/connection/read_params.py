"""Read the parameters of an editor's requests. A wrong one raises RequestFailed, in words that name it."""

from __future__ import annotations

from pathlib import Path

from semel.faces.acp.connection.request_errors import INVALID_PARAMS, RequestFailed
from semel.text.json_types import Json, objects_in, text_at


def read_text(params: Json, name: str) -> str:
    """Return a parameter that must be a text."""
    value = text_at(params, name)
    if not value:
        raise RequestFailed(INVALID_PARAMS, f"{name} must be a string that is not empty")
    return value


def read_session_id(params: Json) -> str:
    """Return the key of the session that a request is about."""
    from semel.law.identity import BadKey, check_session_key

    try:
        return check_session_key(read_text(params, "sessionId"))
    except BadKey:
        words = "sessionId: no session has this id; session/list names all sessions"
        raise RequestFailed(INVALID_PARAMS, words) from None


def read_blocks(params: Json) -> list[Json]:
    """Return the content blocks of a prompt."""
    prompt = params.get("prompt")
    blocks = objects_in(prompt)
    if not isinstance(prompt, list) or len(blocks) < len(prompt):
        raise RequestFailed(INVALID_PARAMS, "prompt must be a list of content blocks, which are objects")
    return blocks


def read_servers(params: Json) -> list[Json]:
    """Return the editor's MCP servers."""
    servers = params.get("mcpServers")
    objects = objects_in(servers)
    if servers is not None and (not isinstance(servers, list) or len(objects) < len(servers)):
        raise RequestFailed(INVALID_PARAMS, "mcpServers must be a list of MCP servers, which are objects")
    return objects


def read_folder(params: Json) -> str:
    """Return the folder of a session, an absolute path."""
    folder = read_text(params, "cwd")
    if not Path(folder).is_absolute():
        raise RequestFailed(INVALID_PARAMS, f"cwd must be an absolute path, and {folder!r} is none")
    return folder
