"""How to start the gateway again: with the file that the last one has read."""

from __future__ import annotations

from cli_house import SCRIPTED, Cli, end


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
