"""How to start the gateway again: with the file that the last one has read."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_house import SCRIPTED, Cli, end

from semel.tools.address import find_start_command


def test_the_file_of_the_last_gateway_is_named_where_semel_up_does_not_find_it(cli: Cli) -> None:
    folder = cli.home / "my gateway"
    folder.mkdir()
    file = folder / "semel.toml"
    file.write_text(SCRIPTED)
    end(cli.up("--config", str(file)))
    again = f"semel up --config '{file}'"
    assert cli("status").stdout.splitlines()[0] == f"gateway   not running; start it with: {again}"
    assert f"Start one with: {again}" in cli("say", "main", "hello", rc=1).stderr
    process = cli.start("up", "--listen", "127.0.0.1:0")  # in another folder, so without the file
    assert process.stdout is not None
    warning = next(line for line in process.stdout if "no configuration file is read" in line)
    assert str(file) in warning
    end(process)


def test_the_data_directory_is_named_where_semel_up_does_not_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, other = tmp_path / "my data", tmp_path / "other"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("SEMEL_DATA", raising=False)
    named = f"semel up --data-dir '{data}'"
    assert (find_start_command(data), find_start_command(tmp_path / "semel")) == (named, "semel up")
    (tmp_path / "semel.toml").write_text("[gateway]\ndata_dir = 'my data'\n")
    assert find_start_command(data) == "semel up"
    assert find_start_command(other) == f"semel up --data-dir {other}"
    monkeypatch.setenv("SEMEL_DATA", str(other))
    assert (find_start_command(data), find_start_command(other)) == (named, "semel up")
