"""Build the OpenAPI 3.1 document from the table of operations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

import semel
from semel.faces.http.problems import CODES, MEDIA
from semel.faces.http.security import Access
from semel.faces.http.table import BOOL_WORDS, SESSION_KEY, Answers, Operation, Param

Json = dict[str, Any]

REF = "#/components/schemas/{name}"

PATH_PARAMS: dict[str, tuple[Json, str]] = {
    "key": (
        {"type": "string", "pattern": f"^{SESSION_KEY.pattern}$"},
        "The session's key (percent-encode it).",
    ),
    "id": ({"type": ["integer", "string"]}, "Its id."),
    "item": ({"type": "integer"}, "The id of an item."),
    "ref": ({"type": "string"}, "The id of an event, claim or part, or a platform's message id."),
    "channel": ({"type": "string"}, "The name of a configured channel."),
    "name": ({"type": "string"}, "The name of a schedule."),
    "account": ({"type": "string"}, "CHANNEL:ID: a person's account on a channel (percent-encode it)."),
}

COMMON = ("bad-field", "internal")
RAW_BODY_ERRORS = ("too-large", "too-slow")
JSON_BODY_ERRORS = ("bad-json", *RAW_BODY_ERRORS, "not-json")


def document(operations: Sequence[Operation]) -> Json:
    """The OpenAPI document for all operations that are `documented`."""
    shown = [operation for operation in operations if operation.documented]
    paths: dict[str, Json] = {}
    for operation in shown:
        paths.setdefault(plain_path(operation.path), {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.1",
        "info": {"title": "Semel", "version": semel.__version__, "license": {"name": "Apache-2.0"}},
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {"page": []}, {}],
        "paths": paths,
        "components": {
            "schemas": {**_schemas(shown), "Problem": PROBLEM},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "The owner's token."},
                "node": {"type": "http", "scheme": "bearer", "description": "A node's token (semel.toml, nodes)."},
                "page": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "semel_…",
                    "description": "Set by POST /v1/login.",
                },
            },
        },
    }


PROBLEM: Json = {
    "type": "object",
    "description": "RFC 9457 problem details. `type` is `urn:semel:problem:<code>`; `about:blank` where a channel "
    "refuses a webhook.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "enum": [*(f"urn:semel:problem:{code}" for code in CODES), "about:blank"]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string", "description": "The field or parameter that is wrong."},
        "event": {"type": "integer", "description": "conflict: the event that holds the key."},
        "kept": {"type": "string", "description": "conflict: digest of the content that stays."},
        "given": {"type": "string", "description": "conflict: digest of the content of this request."},
        "limit": {"type": "integer", "description": "too-large: bytes a body may have."},
    },
}


def plain_path(path: str) -> str:
    return re.sub(r":(?:int|path)}", "}", path)


def _operation(operation: Operation) -> Json:
    out: Json = {
        "operationId": operation.name,
        "summary": operation.what,
        "tags": [operation.tag],
        "responses": _responses(operation),
    }
    names = re.findall(r"{(\w+)", operation.path)
    params = [_path_param(name) for name in names]
    params += [_param(param, "query") for param in operation.query]
    params += [_param(param, "header") for param in operation.headers]
    if params:
        out["parameters"] = params
    if operation.body is not None:
        content = {"application/json": {"schema": _reference(operation.body)}}
        out["requestBody"] = {"required": not operation.body_optional, "content": content}
    elif operation.raw_body:
        out["requestBody"] = {"required": True, "content": {"*/*": {}}}
    if operation.access is Access.EVENTS:
        out["security"] = [{"bearer": []}, {"node": []}, {"page": []}, {}]
    elif operation.access is not Access.OWNER:
        out["security"] = [{}]
    return out


def _responses(operation: Operation) -> Json:
    out: Json = {str(status): _answer(answers) for status, answers in operation.answers.items()}
    for code in error_codes(operation):
        status, title = CODES[code]
        content = {MEDIA: {"schema": {"$ref": REF.format(name="Problem")}}}
        have = out.setdefault(str(status), {"description": "", "content": content})
        if have["content"] is content or MEDIA in have["content"]:
            have["description"] = f"{have['description']} `{code}`: {title}.".strip()
    return out


def error_codes(operation: Operation) -> list[str]:
    """The codes of all problems that this operation may return."""
    knocking = {
        Access.OWNER: ("foreign-host", "foreign-origin", "no-token", "node-scope"),
        Access.EVENTS: ("foreign-host", "foreign-origin", "no-token", "node-scope"),
        Access.PAGE: ("foreign-host", "foreign-origin", "no-token", "node-scope"),
        Access.SIGNED: ("foreign-origin", "node-scope"),
        Access.OPEN: ("node-scope",),
    }[operation.access]
    body: tuple[str, ...] = (
        RAW_BODY_ERRORS if operation.raw_body else JSON_BODY_ERRORS if operation.method != "GET" else ()
    )
    return list(dict.fromkeys((*COMMON, *knocking, *body, *operation.errors)))


def _answer(answers: Answers) -> Json:
    out: Json = {"description": answers.what}
    if answers.media == MEDIA:
        out["content"] = {MEDIA: {"schema": {"$ref": REF.format(name="Problem")}}}
    elif answers.type is not None:
        schema = _reference(answers.type) if answers.media == "application/json" else {"type": "string"}
        out["content"] = {answers.media: {"schema": schema}}
    return out


def _path_param(name: str) -> Json:
    schema, what = PATH_PARAMS[name]
    return {"name": name, "in": "path", "required": True, "schema": schema, "description": what}


def _param(param: Param, where: str) -> Json:
    schema: Json
    if param.kind is int:
        schema = {"type": "integer", "minimum": 0, "maximum": param.most}
    elif param.kind is bool:
        schema = {"type": "string", "enum": list(BOOL_WORDS)}
    else:
        schema = {"type": "string", **({"enum": list(param.one_of)} if param.one_of else {})}
    if param.default is not None and param.kind is not bool:
        schema["default"] = param.default
    return {"name": param.name, "in": where, "required": False, "schema": schema, "description": param.what}


def _reference(kind: Any) -> Json:
    return msgspec.json.schema_components([kind], ref_template=REF)[0][0]


def _schemas(operations: Sequence[Operation]) -> Json:
    kinds: list[Any] = [operation.body for operation in operations if operation.body is not None]
    for operation in operations:
        kinds += [a.type for a in operation.answers.values() if a.type is not None and a.media == "application/json"]
    return msgspec.json.schema_components(kinds, ref_template=REF)[1]
