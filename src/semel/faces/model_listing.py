"""Ask a server that should speak OpenAI's API which models it has. This also shows whether its address is right."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2

from semel.agents.connection_errors import NOTHING_LISTENS, describe_root_cause
from semel.text.json_types import Json, objects_in, text_at

LISTING_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class ModelListing:
    """What a server answered.

    - `url`: the address of its API, which may be the given one with /v1.
    - `models`: the names of its models.
    - `problem`: why there is no list, and what to do; "" if there is one.
    - `wants_key`: it refused the request, because it had no valid key.
    """

    url: str
    models: tuple[str, ...] = ()
    problem: str = ""
    wants_key: bool = False


def list_models(url: str, key: str = "") -> ModelListing:
    """Ask the server at `url`, such as http://127.0.0.1:11434/v1, for its models. An address without a path is tried
    with /v1, too. `key`: "" if it gets none."""
    url = url.rstrip("/")
    listing = _request_models(url, key)
    if listing.problem and not listing.wants_key and not urlsplit(url).path:
        with_path = _request_models(f"{url}/v1", key)
        return with_path if not with_path.problem or with_path.wants_key else listing
    return listing


def _request_models(url: str, key: str) -> ModelListing:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        response = httpx2.get(f"{url}/models", headers=headers, timeout=LISTING_TIMEOUT_S)
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        cause = describe_root_cause(error)
        advice = ". Start the server, or correct the address" if cause == NOTHING_LISTENS else ""
        return ModelListing(url, problem=f"{url} could not be reached: {cause}{advice}")
    if response.status_code in (401, 403):
        reason = "refused the key" if key else "wants an API key"
        return ModelListing(url, problem=f"{url} {reason} ({response.status_code})", wants_key=True)
    try:
        answer: Json = response.json() if response.is_success else {}
    except ValueError:
        answer = {}
    if not isinstance(answer, dict) or "data" not in answer:
        advice = "Is it the address of an OpenAI-compatible API? Most end in /v1"
        return ModelListing(url, problem=f"{url}/models answered {response.status_code} without a list. {advice}")
    names = (text_at(model, "id") for model in objects_in(answer["data"]))
    return ModelListing(url, tuple(name for name in names if name))
