"""`[nodes.NAME]`: tokens are read from elsewhere, are long enough, and belong to one node each."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.faces.config import ConfigError
from semel.faces.config.load import load_config
from semel.faces.http import NodeSettings

LONG = "a-token-that-is-long-enough"


def read(path: Path, text: str, **env: str) -> tuple[NodeSettings, ...]:
    (path / "semel.toml").write_text(text)
    (path / "a.token").write_text(f"{LONG}\n")
    config = load_config(path / "semel.toml", env={"HOME": str(path), **env})
    assert config.secrets >= env.keys()  # kept from agents
    return config.nodes


def test_a_nodes_token_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    text = '[nodes.a]\ntoken = "file:a.token"\nsessions = ["ci:*"]\n[nodes.b]\ntoken = "env:B"\n'
    assert read(tmp_path, text, B="another-token-for-b") == (
        NodeSettings(name="a", token=LONG, sessions=("ci:*",)),
        NodeSettings(name="b", token="another-token-for-b", sessions=()),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'[nodes.a]\ntoken = "{LONG}"', "the token itself does not belong in this file"),
        ('[nodes.a]\nsessions = ["x"]', '[nodes.a] needs "token"'),
        ('[nodes.a]\ntoken = "env:B"', 'semel.toml:2: [nodes.a] "token": a token is 16 or more'),
        ('[nodes.a]\ntoken = "env:MISSING"', "the environment variable MISSING is not set"),
        ('[nodes.a]\ntoken = "file:missing"', "cannot be read"),
        ('[nodes.a]\ntoken = "file:a.token"\n[nodes.b]\ntoken = "file:a.token"', "has the token of [nodes.a]"),
        ('[nodes.a]\ntoken = "file:a.token"\nsession = ["x"]', 'did you mean "sessions"?'),
    ],
)
def test_a_wrong_node_is_explained_without_its_token(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text, B="short")
    assert said in str(caught.value) and "short" not in str(caught.value)
