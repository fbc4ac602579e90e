"""The server of a model: its address as people see it, the API key it gets, and what to do if it fails.

A key of the environment goes to the provider's own host only. If `base_url` is another server, that server gets a key
only if the setting `key` names one: otherwise, a key for OpenAI would go to whoever runs a proxy or a model.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model
from pydantic_ai.providers import Provider

from semel.gateway.settings import AgentSettings

NO_KEY = "no-key"
"""Given to a provider's library in place of a key. Without any, it would fail, or take the key of the environment."""

PLACEHOLDERS = (NO_KEY, "api-key-not-set")
"""Values that stand for no key. pydantic-ai itself has the second one for the server of OPENAI_BASE_URL."""

_KEY_HEADERS = ("Authorization", "X-Api-Key", "api-key")  # OpenAI's, Anthropic's and Azure's

_URL_PARAMETERS = ("base_url", "api_base", "azure_endpoint")  # providers' names of the parameter for an address


def make_provider(provider_class: Callable[..., Provider[Any]], name: str, agent: AgentSettings) -> Provider[Any]:
    """Make the provider `name` with the agent's key and address.

    Raises UserError, or the provider's own exception, if the settings do not fit it.
    """
    parameters = inspect.signature(provider_class).parameters
    takes_key = "api_key" in parameters
    arguments: dict[str, Any] = {}
    if agent.key is not None:
        if not takes_key:
            raise UserError(f"the provider {name} takes no key here: leave `key` out.")
        arguments["api_key"] = agent.key
    if agent.base_url is None:
        return provider_class(**arguments)
    parameter = next((parameter for parameter in _URL_PARAMETERS if parameter in parameters), None)
    if parameter is None or not takes_key:
        raise UserError(
            f"the provider {name} has an address of its own. For a server that speaks OpenAI's API write "
            'model = "openai-chat:NAME".'
        )
    arguments[parameter] = agent.base_url
    is_own = _has_origin(agent.base_url, _find_own_url(provider_class))
    if not is_own and agent.key is None:
        arguments["api_key"] = NO_KEY
    provider = provider_class(**arguments)
    if not is_own:
        _remove_account(provider)
    return provider


def _find_own_url(provider_class: Callable[..., Provider[Any]]) -> str:
    """Return the URL that the provider has without `base_url`; "" if it has none."""
    try:
        return provider_class(api_key=NO_KEY).base_url
    except Exception:  # such as Ollama's and Azure's, which are nothing without an address
        return ""


def _has_origin(url: str, own_url: str) -> bool:
    """Whether both URLs have the same scheme, host and port."""
    try:
        return bool(own_url) and _read_origin(url) == _read_origin(own_url)
    except ValueError:  # a port that is no number
        return False


def _read_origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _remove_account(provider: Provider[Any]) -> None:
    """Remove what OpenAI's and Anthropic's clients take from the environment and send besides the key."""
    client = provider.client
    for name in ("organization", "project"):  # OPENAI_ORG_ID, OPENAI_PROJECT_ID
        if isinstance(getattr(client, name, None), str):
            setattr(client, name, None)
    headers = getattr(client, "_custom_headers", {})
    for variable in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"):
        for line in os.environ.get(variable, "").splitlines():
            headers.pop(line.partition(":")[0].strip(), None)


def omit_key_headers(model: Model) -> dict[str, Any]:
    """Return the headers with which a request leaves the placeholder of a key out; {} if the model has a real key.

    OpenAI's and Anthropic's clients leave a header out if a request gives it their value `omit`. Other libraries have
    no such value: they may send the placeholder.
    """
    client = getattr(model.provider, "client", None)
    library = sys.modules.get(type(client).__module__.partition(".")[0])
    omit = getattr(library, "omit", None)
    if getattr(client, "api_key", None) not in PLACEHOLDERS or omit is None:
        return {}
    return dict.fromkeys(_KEY_HEADERS, omit)


@dataclass(frozen=True)
class ModelServer:
    """Where an agent's requests go.

    - `url`: its address, without a user name, a password and a query, which may be secrets.
    - `model`: the model's name there.
    - `key`: the source of the key that the server gets: "key" for the setting, the name of a variable, "environment" if
      the provider's library found a key in a place of its own, or "" for no key.
    - `withheld`: the variable whose key the server does not get, because the key belongs to the provider; or "".
    - `is_own`: whether the address is the provider's own, and not from `base_url`.
    """

    url: str
    model: str
    key: str
    withheld: str
    is_own: bool

    @property
    def key_remark(self) -> str:
        """Which key the server gets, or why it gets none. The words follow the agent's name: "sends the key ..."."""
        if self.key == "key":
            return f"sends the key of its setting `key` to {self.url}"
        if self.key:
            place = f"the environment variable {self.key}" if self.key != "environment" else "the provider's library"
            return f"sends the key of {place} to {self.url}"
        reason = f": {self.withheld} of the environment goes to the provider's own server only" if self.withheld else ""
        return f'sends no key to {self.url}{reason}. If that server wants one, write key = "env:NAME" or "file:PATH"'

    @property
    def key_advice(self) -> str:
        """What to do if the server refuses the key."""
        if self.key:
            place = "the setting `key`" if self.key == "key" else self.key
            return (
                f"It got the key of {place}: is that a valid one for this server? Restart the gateway after a change."
            )
        reason = f", because {self.withheld} goes to the provider's own server only" if self.withheld else ""
        return f'It got no key{reason}: write key = "env:NAME" or "file:PATH"'


def describe_server(model: Model, agent: AgentSettings, env: Mapping[str, str] = os.environ) -> ModelServer:
    """Describe the server that a model's requests go to."""
    provider = model.provider
    key = getattr(provider.client, "api_key", None) if provider is not None else None
    variable = f"{model.system.partition('-')[0].upper()}_API_KEY"
    source, withheld = "key", ""
    if agent.key is None and key in PLACEHOLDERS:
        source, withheld = "", variable if env.get(variable) else ""
    elif agent.key is None:
        names = [variable, *sorted(env)]
        source = next((name for name in names if key and env.get(name) == key), "environment")
    return ModelServer(_hide_secrets(model.base_url or ""), model.model_name, source, withheld, agent.base_url is None)


def _hide_secrets(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl().rstrip("/")
