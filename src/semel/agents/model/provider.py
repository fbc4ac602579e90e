"""Make the pydantic-ai model for a configured "provider:name", with its key and address. Sends no request."""

from __future__ import annotations

import difflib
import inspect
import sys
from typing import Any, cast

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings as Options

from semel.agents.model import INSTALL_COMMAND
from semel.agents.model.plainly import bypass_client_validation
from semel.gateway.ports import AgentError
from semel.gateway.settings import AgentSettings, ModelSettings

_URL_PARAMETERS = ("base_url", "api_base", "azure_endpoint")  # providers' parameter names for it

_SETTING_PREFIXES = {
    "anthropic", "bedrock", "cerebras", "cohere", "google", "groq", "huggingface", "mistral", "openai", "openrouter",
    "xai", "zai",
}  # fmt: skip
"""Prefixes of provider-specific settings: each begins with its provider's name."""

ABORTED_FINISH_REASONS = frozenset({"abort", "aborted", "cancel", "cancelled", "canceled"})
"""Finish reasons of an answer that the server aborted (vLLM: "abort"); its text is incomplete."""


class Models:
    """The model of one agent, with its settings. Its conversations share it and its HTTP connections."""

    def __init__(self, agent: AgentSettings) -> None:
        assert agent.model is not None
        self.agent = agent
        self.settings: ModelSettings = agent.model
        self.model = self._make()
        self._plain = bypass_client_validation(self.model)
        self.context = min(self.settings.context, self.model.context_window or self.settings.context)  # tokens
        self._chat = _is_chat(self.model)

    def __repr__(self) -> str:
        return f"<Models {self.settings.model}>"

    def is_whole(self, response: ModelResponse) -> bool:
        """Whether the answer is complete. A chat completion without a finish reason was cut off, although pydantic-ai
        takes it for complete. Any other reason counts: servers have their own names for a good end ("eos_token")."""
        if response.state != "complete":
            return False
        told = (response.provider_details or {}).get("finish_reason")
        if isinstance(told, str) and told.lower() in ABORTED_FINISH_REASONS:
            return False
        if self._chat:
            return told is not None or response.finish_reason == "content_filter"
        return told is not None or response.finish_reason is not None

    def without_key(self, text: str) -> str:
        """Replace the API key in a text; some APIs quote a wrong key in their error message."""
        client = getattr(getattr(self.model, "provider", None), "client", None)
        for key in (self.settings.key, getattr(client, "api_key", None)):
            if isinstance(key, str) and len(key) > 3:
                text = text.replace(key, "(the key)")
        return text

    def options(self) -> Options:
        """The settings of each request. The client's own retries are off: Semel decides about retries (Law 7)."""
        told: dict[str, Any] = dict(self.settings.options)
        if self.settings.max_tokens is not None:
            told["max_tokens"] = self.settings.max_tokens
        told |= {"framing_announcement": "never"}
        if not self._plain:  # a patched client makes no retries already
            told["max_retries"] = 0
        return cast(Options, told)

    def _check_options(self) -> None:
        """Reject settings that pydantic-ai does not know and would silently ignore. Raises AgentError."""
        known = Options.__annotations__.keys()
        for key in self.settings.options:
            if key not in known and key.partition("_")[0] not in _SETTING_PREFIXES:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f'; did you mean "{near[0]}"?' if near else ""
                raise AgentError(f'[agents.{self.agent.name}] settings: pydantic-ai knows no "{key}"{hint}')

    def _make(self) -> Model:
        self._check_options()
        name, where = self.settings.model, f"[agents.{self.agent.name}]"
        provider, _, model = name.partition(":")
        if not provider or not model:
            raise AgentError(
                f'{where} model is "{name}", and should be "provider:name", like "anthropic:claude-opus-5"'
            )
        try:
            return infer_model(name, self._provider)
        except ValueError:
            raise AgentError(f'{where} model is "{name}": pydantic-ai knows no provider "{provider}"') from None
        except ImportError as missing:
            raise AgentError(f"{where} {provider}: {missing} (the usual ones: {INSTALL_COMMAND})") from None
        except UserError as error:
            told = str(error).partition(" To try Pydantic AI")[0]
            raise AgentError(f'{where} model "{name}": {told} Or name it: key = "env:NAME" or "file:PATH"') from None
        except Exception as error:  # a client's own complaint about its key, its address, its region ...
            raise AgentError(f'{where} model "{name}" cannot be used: {error}') from None

    def _provider(self, name: str) -> Provider[Any]:
        made = infer_provider_class(name)
        takes = inspect.signature(made.__init__).parameters
        given: dict[str, Any] = {}
        if self.settings.key is not None:
            if "api_key" not in takes:
                raise UserError(f"the provider {name} takes no key here: leave `key` out.")
            given["api_key"] = self.settings.key
        if self.settings.base_url is not None:
            url = next((one for one in _URL_PARAMETERS if one in takes), None)
            if url is None:
                raise UserError(
                    f"the provider {name} has an address of its own. For a server that speaks OpenAI's API write "
                    'model = "openai-chat:NAME".'
                )
            given[url] = self.settings.base_url
        return made(**given)


def _is_chat(model: Model) -> bool:
    if "pydantic_ai.models.openai" not in sys.modules:  # then it is no OpenAI model; avoids the import
        return False
    from pydantic_ai.models.openai import OpenAIChatModel

    return isinstance(model, OpenAIChatModel)
