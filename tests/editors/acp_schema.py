"""The official JSON schema of ACP v1, and what breaks it.

tests/data/acp_v1_schema.json is `schema/v1/schema.json` of the npm package @agentclientprotocol/sdk 2.4.0 (Apache-2.0),
without its descriptions.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

_PATH = Path(__file__).parent.parent / "data" / "acp_v1_schema.json"
_ENUMS = frozenset(("sessionUpdate", "status", "kind", "type", "role", "severity", "priority"))


@cache
def _definitions() -> dict[str, Any]:
    return dict(json.loads(_PATH.read_text())["$defs"])


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": _definitions()})


@cache
def _types() -> dict[str, str]:
    """The type of the params of each method that an agent calls."""
    return {
        definition["x-method"]: name
        for name, definition in _definitions().items()
        if "x-method" in definition and definition["x-side"] != "agent" and not name.endswith("Response")
    }


def _shape(value: Any, key: str = "") -> Any:
    """Return what a value has in common with others for which the schema says the same."""
    if isinstance(value, dict):
        return tuple((name, _shape(inner, name)) for name, inner in value.items())
    if isinstance(value, list):
        return tuple(dict.fromkeys(_shape(inner) for inner in value))
    return value if key in _ENUMS else (type(value).__name__, value == "")


@cache
def _results() -> dict[str, str]:
    """The type of the result of each request that a client makes."""
    return {
        definition["x-method"]: name
        for name, definition in _definitions().items()
        if definition.get("x-side") == "agent" and name.endswith("Response")
    }


class SchemaCheck:
    """Checks messages from an agent. `violations`: what was found; `checked`: how many messages had a type."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.checked = 0
        self._known: set[Any] = set()

    def check(self, line: bytes) -> None:
        message = json.loads(line)
        method = message.get("method")
        if method is None or method.startswith("_"):
            return
        assert message["jsonrpc"] == "2.0"
        self._check(_types()[method], message["params"], line)

    def check_result(self, method: str, line: bytes) -> None:
        """Check an answer to a request of the client."""
        message = json.loads(line)
        if "result" in message:
            self._check(_results()[method], message["result"], line)
        else:
            self._check("Error", message["error"], line)

    def _check(self, name: str, value: Any, line: bytes) -> None:
        self.checked += 1
        shape = (name, _shape(value))
        if shape in self._known:
            return
        self._known.add(shape)
        for error in _validator(name).iter_errors(value):
            self.violations.append(f"{name}: {error.message[:200]} in {line[:300]!r}")
