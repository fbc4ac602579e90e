"""Build the OpenAPI 3.1 document from the declared operations (routing.py)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

import semel
from semel.faces.http.problems import CODES, PROBLEM_MEDIA_TYPE
from semel.faces.http.routing import BOOL_WORDS, Operation, Param, Returns
from semel.faces.http.security import Access
from semel.text.json_types import Json

REF = "#/components/schemas/{name}"

COMMON_ERRORS = ("bad-field", "internal")
RAW_BODY_ERRORS = ("too-large", "too-slow")
JSON_BODY_ERRORS = ("bad-json", *RAW_BODY_ERRORS, "not-json")


def make_document(operations: Sequence[Operation]) -> Json:
    """Build the OpenAPI document for all operations that are `documented`."""
    documented = [operation for operation in operations if operation.documented]
    paths: dict[str, Json] = {}
    for operation in documented:
        paths.setdefault(plain_path(operation.path), {})[operation.method.lower()] = _describe_operation(operation)
    return {
        "openapi": "3.1.1",
        "info": {"title": "Semel", "version": semel.__version__, "license": {"name": "Apache-2.0"}},
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {"page": []}, {}],
        "paths": paths,
        "components": {
            "schemas": {**_make_schemas(documented), "Problem": PROBLEM},
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


def _describe_operation(operation: Operation) -> Json:
    description: Json = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": _describe_responses(operation),
    }
    params = [_describe_param(param, "path") for param in operation.path_params]
    params += [_describe_param(param, "query") for param in operation.query]
    params += [_describe_param(param, "header") for param in operation.headers]
    if params:
        description["parameters"] = params
    if operation.body is not None:
        content = {"application/json": {"schema": _make_schema(operation.body)}}
        description["requestBody"] = {"required": not operation.body_optional, "content": content}
    elif operation.raw_body:
        description["requestBody"] = {"required": True, "content": {"*/*": {}}}
    if operation.access is Access.EVENTS:
        description["security"] = [{"bearer": []}, {"node": []}, {"page": []}, {}]
    elif operation.access is not Access.OWNER:
        description["security"] = [{}]
    return description


def _describe_responses(operation: Operation) -> Json:
    responses: Json = {str(status): _describe_response(returns) for status, returns in operation.returns.items()}
    for code in list_error_codes(operation):
        status, title = CODES[code]
        content = {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": REF.format(name="Problem")}}}
        response = responses.setdefault(str(status), {"description": "", "content": content})
        if response["content"] is content or PROBLEM_MEDIA_TYPE in response["content"]:
            response["description"] = f"{response['description']} `{code}`: {title}.".strip()
    return responses


def list_error_codes(operation: Operation) -> list[str]:
    """Return the codes of all problems that this operation may return."""
    access_errors = {Access.SIGNED: ("foreign-origin", "node-scope"), Access.OPEN: ("node-scope",)}.get(
        operation.access, ("foreign-host", "foreign-origin", "no-token", "node-scope")
    )
    body_errors: tuple[str, ...] = (
        RAW_BODY_ERRORS if operation.raw_body else JSON_BODY_ERRORS if operation.method != "GET" else ()
    )
    return list(dict.fromkeys((*COMMON_ERRORS, *access_errors, *body_errors, *operation.errors)))


def _describe_response(returns: Returns) -> Json:
    description: Json = {"description": returns.description}
    if returns.media == PROBLEM_MEDIA_TYPE:
        description["content"] = {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": REF.format(name="Problem")}}}
    elif returns.type is not None:
        schema = _make_schema(returns.type) if returns.media == "application/json" else {"type": "string"}
        description["content"] = {returns.media: {"schema": schema}}
    return description


def _describe_param(param: Param, where: str) -> Json:
    schema: Json = {"type": "string"}
    if param.kind is int:
        schema = {"type": "integer", "minimum": 0, "maximum": param.maximum}
    elif param.kind is bool:
        schema["enum"] = list(BOOL_WORDS)
    elif param.choices:
        schema["enum"] = list(param.choices)
    elif param.pattern is not None:
        schema["pattern"] = f"^{param.pattern.pattern}$"
    if param.default is not None and param.kind is not bool:
        schema["default"] = param.default
    required = where == "path"
    return {"name": param.name, "in": where, "required": required, "schema": schema, "description": param.description}


def _make_schema(type_: Any) -> Json:
    return msgspec.json.schema_components([type_], ref_template=REF)[0][0]


def _make_schemas(operations: Sequence[Operation]) -> Json:
    bodies = [operation.body for operation in operations]
    answers = [answer for operation in operations for answer in operation.returns.values()]
    types = [*bodies, *(answer.type for answer in answers if answer.media == "application/json")]
    return msgspec.json.schema_components([type_ for type_ in types if type_ is not None], ref_template=REF)[1]
