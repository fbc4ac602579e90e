"""`import semel` is the table of contents: it names everything, and loads nothing."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import semel

HEAVY = {"httpx2", "msgspec", "pydantic", "apsw", "starlette", "textual", "typer", "asyncio", "structlog"}


def loaded_by(statement: str) -> set[str]:
    program = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_semel_loads_none_of_its_modules_and_nothing_heavy() -> None:
    loaded = loaded_by("import semel")
    assert {name for name in loaded if name.startswith("semel.")} == set()
    assert loaded & HEAVY == set()


def test_a_client_loads_neither_the_gateway_nor_the_ledger() -> None:
    loaded = loaded_by("from semel import Client")
    assert "httpx2" in loaded
    assert not [name for name in loaded if name.startswith(("semel.gateway", "semel.ledger", "apsw", "starlette"))]


@pytest.mark.parametrize("name", semel.__all__)
def test_every_name_is_there_and_in_the_table(name: str) -> None:
    assert getattr(semel, name) is not None
    assert name in dir(semel)
    assert name == "__version__" or name in str(semel.__doc__)


def test_a_name_that_is_not_there_is_an_ordinary_mistake() -> None:
    with pytest.raises(AttributeError, match="module 'semel' has no attribute 'Cleint'"):
        semel.Cleint  # noqa: B018


def public_methods(of: type) -> dict[str, inspect.Signature]:
    methods = inspect.getmembers(of, inspect.isfunction)
    return {name: inspect.signature(method) for name, method in methods if not name.startswith("_")}


def test_both_clients_have_the_same_methods_with_the_same_arguments() -> None:
    plumbing = {
        "stream", "stream_list", "post_message", "read_pieces", "post_file", "list_entries", "list_sessions",
        "search_page",
    }  # fmt: skip
    there, here = public_methods(semel.AsyncClient), public_methods(semel.Client)
    assert here.keys() == there.keys() - plumbing
    for name, signature in here.items():
        assert list(signature.parameters.values()) == list(there[name].parameters.values()), name


def test_each_method_of_both_clients_says_what_it_does() -> None:
    for name, method in inspect.getmembers(semel.Client, inspect.isfunction):
        if not name.startswith("_"):
            assert method.__doc__, name
            assert name == "close" or method.__doc__ == getattr(semel.AsyncClient, name).__doc__
