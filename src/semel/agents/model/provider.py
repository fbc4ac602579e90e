"""Create the pydantic-ai model for a configured "provider:name", with its key and address. Send no request."""

from __future__ import annotations

import copy
import difflib
import re
import sys
from pathlib import Path
from typing import Any, cast

from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings as Options
from pydantic_ai.tools import ToolDefinition

from semel.agents.model.failures import describe_error
from semel.agents.model.openai_patches import bypass_client_validation
from semel.agents.model.server import PLACEHOLDERS, describe_server, make_provider, omit_key_headers
from semel.gateway.ports import AgentError
from semel.gateway.settings import AgentSettings
from semel.installation import find_install_command

_FOR_PROGRAMMERS = re.compile(r",? or pass it via `[^`]*`")
"""The part of pydantic-ai's message about a missing key that is of use only in a Python program."""

_SETTING_PREFIXES = {
    "anthropic", "bedrock", "cerebras", "cohere", "google", "groq", "huggingface", "mistral", "openai", "openrouter",
    "xai", "zai",
}  # fmt: skip
"""The beginnings of the names of settings that belong to one provider only."""

ABORTED_FINISH_REASONS = frozenset({"abort", "aborted", "cancel", "cancelled", "canceled"})
"""Finish reasons that mean that the server aborted the answer (vLLM: "abort"), so its text is incomplete."""

_TRIAL_TOOL = ToolDefinition(
    name="get_time",
    description="Get the time. Call it only if you are asked for the time.",
    parameters_json_schema={"type": "object", "properties": {}},
)


class ConfiguredModel:
    """The model of one agent, with its settings. All conversations of the agent share it and its HTTP connections.

    - `context`: the size of the model's context window, in tokens.
    - `server`: where its requests go, and which key they carry.
    """

    def __init__(self, agent: AgentSettings) -> None:
        assert agent.model is not None
        self.agent = agent
        self.name = agent.model
        self.model = self._make_model()
        self.server = describe_server(self.model, agent)
        self._omitted_headers = omit_key_headers(self.model)
        bypass_client_validation(self.model)
        self._has_retries = not _switch_off_retries(self.model)
        self.context = min(self.agent.context, self.model.context_window or self.agent.context)  # tokens
        self._is_chat = _is_chat(self.model)

    def __repr__(self) -> str:
        return f"<ConfiguredModel {self.name}>"

    def copy_to(self, cwd: Path) -> ConfiguredModel:
        """Return the same model, with the same connections, for an agent that works in this folder."""
        other = copy.copy(self)
        other.agent = self.agent.model_copy(update={"cwd": cwd})
        return other

    def is_whole(self, response: ModelResponse) -> bool:
        """Return whether a response is complete.

        A chat completion without a finish reason was cut off, although pydantic-ai counts it as complete. Any finish
        reason but an abort is accepted, because servers have their own names for a normal end ("eos_token").
        """
        if response.state != "complete":
            return False
        reason = (response.provider_details or {}).get("finish_reason")
        if isinstance(reason, str) and reason.lower() in ABORTED_FINISH_REASONS:
            return False
        if self._is_chat:
            return reason is not None or response.finish_reason == "content_filter"
        return reason is not None or response.finish_reason is not None

    def describe_error(self, error: Exception) -> str:
        """Describe a failed request to people: the server's address, and what to do, without the key."""
        return self.without_key(describe_error(error, self.server))

    def without_key(self, text: str) -> str:
        """Return the text with the API key replaced. Some APIs quote a wrong key in their error messages."""
        client = getattr(getattr(self.model, "provider", None), "client", None)
        for key in (self.agent.key, getattr(client, "api_key", None)):
            if isinstance(key, str) and len(key) > 3 and key not in PLACEHOLDERS:
                text = text.replace(key, "(the key)")
        return text

    async def ask(self, prompt: str) -> str:
        """Send one request with one tool, without history. Return the answer's text, or name the tool it calls.

        The tool shows at once if the model takes none, because each turn offers tools. Raises AgentError.
        """
        offer = ModelRequestParameters(function_tools=[_TRIAL_TOOL])
        messages: list[ModelMessage] = [ModelRequest([UserPromptPart(prompt)])]
        try:
            async with self.model:  # which closes its connections again
                options = self.request_options()
                response = await model_request(
                    self.model, messages, model_settings=options, model_request_parameters=offer
                )
        except Exception as error:  # of the client's library, or of the server
            raise AgentError(self.describe_error(error)) from None
        text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        calls = [f"(a call of {part.tool_name})" for part in response.parts if isinstance(part, ToolCallPart)]
        return text if text.strip() else " ".join(calls)

    def request_options(self) -> Options:
        """Return the settings of each request.

        The client's own retries are off, because Semel decides on retries (Law 7). Without a key, the headers for one
        are left out, unless `extra_headers` of the settings has them.
        """
        options: dict[str, Any] = dict(self.agent.request_settings)
        if self._omitted_headers:
            options["extra_headers"] = self._omitted_headers | options.get("extra_headers", {})
        if self.agent.max_tokens is not None:
            options["max_tokens"] = self.agent.max_tokens
        options |= {"framing_announcement": "never"}
        if self._has_retries:
            options["max_retries"] = 0
        return cast(Options, options)

    def _check_options(self) -> None:
        """Raise AgentError for settings that pydantic-ai does not know and would silently ignore."""
        known_keys = Options.__annotations__.keys()
        for key in self.agent.request_settings:
            if key not in known_keys and key.partition("_")[0] not in _SETTING_PREFIXES:
                close_keys = difflib.get_close_matches(key, known_keys, n=1)
                hint = f'; did you mean "{close_keys[0]}"?' if close_keys else ""
                raise AgentError(f'[agents.{self.agent.name}] settings: pydantic-ai knows no "{key}"{hint}')

    def _make_model(self) -> Model:
        self._check_options()
        name, section = self.name, f"[agents.{self.agent.name}]"
        provider, _, model = name.partition(":")
        if not provider or not model:
            raise AgentError(
                f'{section} model is "{name}", and should be "provider:name", like "anthropic:claude-opus-5"'
            )
        try:
            return infer_model(name, self._make_provider)
        except ValueError:
            raise AgentError(f'{section} model is "{name}": pydantic-ai knows no provider "{provider}"') from None
        except ImportError as import_error:
            usual = find_install_command("model")
            raise AgentError(f"{section} {provider}: {import_error} (the usual ones: {usual})") from None
        except UserError as error:
            message = _FOR_PROGRAMMERS.sub("", str(error)).partition(" To try Pydantic AI")[0]
            raise AgentError(
                f'{section} model "{name}": {message} Or name it: key = "env:NAME" or "file:PATH"'
            ) from None
        except Exception as error:  # the client's own error about its key, address, region ...
            raise AgentError(f'{section} model "{name}" cannot be used: {error}') from None

    def _make_provider(self, name: str) -> Provider[Any]:
        return make_provider(infer_provider_class(name), name, self.agent)


def _switch_off_retries(model: Model) -> bool:
    """Switch off the retries of OpenAI's or Anthropic's client. Returns False if the client has no such switch.

    This changes the client itself, because an option per request would make the library copy the client. The copy would
    lack the patches of `openai_patches`, and would read the environment again.
    """
    client: Any = getattr(model.provider, "client", None)
    if not isinstance(getattr(client, "max_retries", None), int):
        return False
    client.max_retries = 0
    return True


def _is_chat(model: Model) -> bool:
    if "pydantic_ai.models.openai" not in sys.modules:  # then it is no OpenAI model; avoids the import
        return False
    from pydantic_ai.models.openai import OpenAIChatModel

    return isinstance(model, OpenAIChatModel)
