"""Build the OpenAPI 3.1 document from the declared operations (routing.py)."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Sequence
from typing import Any

import msgspec

import semel
from semel.faces.frame_types import NAMED_UNIONS
from semel.faces.http.problems import CODES, PROBLEM_MEDIA_TYPE
from semel.faces.http.routing import BOOL_WORDS, Operation, Param, Returns
from semel.faces.http.security import Access
from semel.gateway.errors import PROBLEM_URN
from semel.text.json_types import Json

REF = "#/components/schemas/{name}"
EVENT_STREAM = "text/event-stream"

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
                    "name": "semel_session",  # generated clients write it into a header
                    "description": "Set by POST /v1/login. The real name ends in 8 digits that differ by gateway.",
                },
            },
        },
    }


PROBLEM: Json = {
    "type": "object",
    "description": "RFC 9457 problem details. `type` is `urn:semel:problem:<code>`; `about:blank` where a channel "
    "of another package refuses a webhook.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "enum": [*(f"{PROBLEM_URN}{code}" for code in CODES), "about:blank"]},
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
    content: Json = {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": REF.format(name="Problem")}}}
    if operation.error_format is not None:
        content = {"application/json": {"schema": _make_schema(operation.error_format.type)}}
    for code in list_error_codes(operation):
        status, title = CODES[code]
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
        description["content"] = {returns.media: {"schema": _make_answer_schema(returns)}}
    return description


def _make_answer_schema(returns: Returns) -> Json:
    if returns.media == EVENT_STREAM:
        return _make_stream_schema(returns)
    return _make_schema(returns.type) if returns.media == "application/json" else {"type": "string"}


def _describe_param(param: Param, where: str) -> Json:
    schema: Json = {"type": "string"}
    if param.kind is int:
        schema = {"type": "integer", "minimum": param.minimum, "maximum": param.maximum}
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
    (schema,), _ = msgspec.json.schema_components([type_], ref_template=REF)
    named: Json = _name_unions(schema)
    return named


def _make_schemas(operations: Sequence[Operation]) -> Json:
    """Return the schemas of all types that the operations name, and of those inside of these."""
    bodies = [operation.body for operation in operations]
    answers = [answer for operation in operations for answer in operation.returns.values()]
    formats = [operation.error_format.type for operation in operations if operation.error_format is not None]
    typed = [answer.type for answer in answers if answer.media in ("application/json", EVENT_STREAM)]
    types = [*bodies, *formats, *typed]
    unions, schemas = msgspec.json.schema_components(
        [*NAMED_UNIONS.values(), *(type_ for type_ in types if type_ is not None)], ref_template=REF
    )
    schemas = {name: _name_unions(schema) for name, schema in schemas.items()}
    schemas |= dict(zip(NAMED_UNIONS, unions, strict=False))
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = inspect.cleandoc(schema["description"])
    # The items are listed again, because generators would take the discriminator of a referenced Item for one of this.
    schemas["ItemChange"] = {"allOf": [schemas["ItemChange"], {"anyOf": schemas["Item"]["anyOf"]}]}
    return schemas


def _name_unions(schema: Any) -> Any:
    """Return a schema in which each union of NAMED_UNIONS is a reference to the schema of its name.

    An array of anything gets the `items` that msgspec leaves out: some generators refuse an array without them.
    """
    if isinstance(schema, list):
        return [_name_unions(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "array" and "prefixItems" not in schema:
        schema = {"items": {}, **schema}
    for name, inlined in _inlined_unions():
        if schema == inlined:
            return {"$ref": REF.format(name=name)}
    return {key: _name_unions(part) for key, part in schema.items()}


@functools.cache
def _inlined_unions() -> list[tuple[str, Json]]:
    """Return the unions of NAMED_UNIONS as msgspec writes them where they are used."""
    unions, _ = msgspec.json.schema_components(list(NAMED_UNIONS.values()), ref_template=REF)
    return list(zip(NAMED_UNIONS, unions, strict=True))


def _make_stream_schema(returns: Returns) -> Json:
    """Return the schema of one event of a stream, whose data is JSON of its type.

    OpenAPI 3.1 has no word for a sequence (3.2 has `itemSchema`). Tools read the schema of an event stream as that of
    each event (docs/decisions/openapi-version.md).
    """
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": _make_schema(returns.type)}
    properties: Json = (
        {}
        if returns.only_data
        else {
            "id": {"type": "string", "description": "The rev of the view after this event."},
            "event": {"type": "string", "description": "The `type` of the data."},
        }
    )
    properties["data"] = data
    return {"type": "object", "required": list(properties), "properties": properties}
