"""The model of `semel init`: ask at which server it is, which model, and for the key."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from semel.faces.cli.init_questions import (
    Choice,
    Options,
    ask_choice,
    ask_text,
    ask_yes_or_no,
    check_reference,
    exit_wrong_usage,
)
from semel.faces.cli.printing import print_error, print_remark

if TYPE_CHECKING:
    from semel.faces.config.setup import Setup
    from semel.faces.model_listing import ModelListing

DEFAULT_MODEL = "anthropic:claude-opus-5"
DEFAULT_BASE_URL = "http://127.0.0.1:11434/v1"  # Ollama's
PROVIDER, SERVER = "provider", "server"
SERVERS = (
    Choice(PROVIDER, "the provider's own, such as Anthropic's or OpenAI's"),
    Choice(SERVER, "another one that speaks OpenAI's API: Ollama, LM Studio, vLLM, OpenRouter, a proxy"),
)
SERVER_PROGRAMS = ("ollama", "lm studio", "lmstudio", "vllm", "openrouter")
"""What people type instead of "server"."""
MAX_MENU_MODELS = 12
"""The most models of a server that are listed as a menu."""

KEY_QUESTION = "(it is not shown; env:NAME or file:PATH refers to one)"
CHAT_API = "openai-chat:"
PROVIDER_PREFIXES = (CHAT_API, "openai:", "openai-responses:", "anthropic:")
"""With --base-url, a name that begins like this also names the API. Other names may have a colon, as in llama3:8b."""


def find_missing_packages() -> str:
    """Return the command that installs the packages which a model needs; "" if they are installed."""
    from importlib.util import find_spec

    from semel.installation import find_install_command

    return "" if find_spec("pydantic_ai") is not None else find_install_command("model")


def add_model(setup: Setup, options: Options) -> None:
    """Add a model behind an API. Exits with 1, and says what to install, if its packages are missing."""
    if command := find_missing_packages():
        print_error(f"a model needs packages that are not installed. Install them, then try again: {command}")
        raise typer.Exit(1)
    is_elsewhere = options.base_url is not None
    if options.asks and not is_elsewhere and options.model is None and options.key is None:
        is_elsewhere = ask_choice("At which server is the model?", SERVERS, more=SERVER_PROGRAMS) != PROVIDER
    settings = _ask_server_model(options) if is_elsewhere else _ask_provider_model(options)
    key = setup.keep_secret("model.key", settings.pop("key")) if settings["key"] else ""
    setup.add_section("agents.main", {"kind": "model", **settings, "key": key})


# ---------------------------------------------------------------- a provider


def _ask_provider_model(options: Options) -> dict[str, str]:
    """Return the settings of a model at its provider."""
    model = options.model
    if model is None and not options.asks:
        exit_wrong_usage(f"name the model with --model PROVIDER:NAME, such as {DEFAULT_MODEL}")
    while model is None or not re.fullmatch(r"[^:\s]+:\S+", model):
        if not options.asks:
            exit_wrong_usage(f"--model is {model!r}, and should be PROVIDER:NAME, such as {DEFAULT_MODEL}")
        model = ask_text("\nWhich model, as PROVIDER:NAME (OpenAI's begin with openai:)", default=DEFAULT_MODEL)
    return {"model": model, "key": _find_key(model.partition(":")[0], options)}


def _find_key(provider: str, options: Options) -> str:
    """Return the API key or a reference to it: as given, from the provider's usual variable, or asked for."""
    variable = re.sub(r"\W", "_", provider.partition("-")[0]).upper() + "_API_KEY"
    if options.key is not None:
        check_reference("--key", options.key)
        _read_secret(options.key)
        return options.key
    if os.environ.get(variable):
        print_remark(f"The key is taken from the environment variable {variable}.")
        return f"env:{variable}"
    if not options.asks:
        exit_wrong_usage(f"say where the API key is: --key env:NAME or --key file:PATH, or set {variable}")
    return ask_text(f"Its API key {KEY_QUESTION}", hidden=True)


# ---------------------------------------------------------------- another server


def _ask_server_model(options: Options) -> dict[str, str]:
    """Return the settings of a model at a server that speaks OpenAI's API."""
    if options.key is not None:
        check_reference("--key", options.key)
        _read_secret(options.key)
    if not options.asks:
        if problem := _find_url_problem(str(options.base_url)):
            exit_wrong_usage(problem)
        if options.model is None:
            exit_wrong_usage("name the model with --model NAME, as that server calls it")
        return _make_settings(str(options.base_url), options.model, options.key or "")
    listing, key = _ask_server(options)
    return _make_settings(listing.url, options.model or _ask_model(listing), key)


def _make_settings(base_url: str, model: str, key: str) -> dict[str, str]:
    name = model if model.startswith(PROVIDER_PREFIXES) else f"{CHAT_API}{model}"
    return {"model": name, "base_url": base_url, "key": key}


def _ask_server(options: Options) -> tuple[ModelListing, str]:
    """Return what a server says about its models, and its key or a reference to it; "" if it needs none."""
    from semel.faces.model_listing import ModelListing, list_models

    url, key = options.base_url, options.key
    while True:
        url = url or ask_text(
            "\nThe address of its API, such as https://openrouter.ai/api/v1", default=DEFAULT_BASE_URL
        )
        url = url if "://" in url else f"{'http' if _is_loopback(f'//{url}') else 'https'}://{url}"
        problem = _find_url_problem(url)
        listing = ModelListing(url, problem=problem) if problem else list_models(url, _read_secret(key or ""))
        if key is None and (listing.wants_key or not (listing.problem or _is_loopback(url))):
            key = ask_text(f"Its API key; Enter if it needs none {KEY_QUESTION}", default="", hidden=True)
            listing = list_models(url, _read_secret(key))
        if not listing.problem:
            return listing, key or ""
        print_error(listing.problem)
        doubted = "address" if not listing.wants_key else "key" if key else "server without a key"
        is_key_doubted = doubted != "address"
        if not problem and ask_yes_or_no(f"Use this {doubted} all the same?", default=False, hidden=is_key_doubted):
            return listing, key or ""
        # a server that wants a key was the right one
        url, key = (listing.url, None) if listing.wants_key else (None, options.key)


def _find_url_problem(url: str) -> str:
    return "" if re.match("https?://.", url) else f"the address {url} should begin with http:// or https://"


def _read_secret(reference: str) -> str:
    """Return the key that a reference names, or the key itself. Exits with 2 if it cannot be read."""
    from semel.faces.config.file import ConfigSource

    try:
        return ConfigSource(Path.cwd(), "", "key", os.environ).resolve_secret(reference)
    except ValueError as error:
        exit_wrong_usage(str(error))


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _ask_model(listing: ModelListing) -> str:
    from semel.faces.config.problems import suggest_nearest

    if 0 < len(listing.models) <= MAX_MENU_MODELS:
        return ask_choice("Which model?", [Choice(name, "") for name in listing.models])
    if listing.models:
        print_remark(f"It has {len(listing.models)} models, such as {', '.join(listing.models[:3])}.")
    while True:
        name = ask_text("Which model, as that server calls it")
        if not listing.models or name in listing.models:
            return name
        print_error(f"it lists no model {name!r}{suggest_nearest(name, listing.models)}")
        if ask_yes_or_no("Use this name all the same?", default=False):
            return name
