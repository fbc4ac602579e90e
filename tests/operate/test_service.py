"""`semel service`: the unit and the property list, as systemd's own tools and a real systemd take them."""

from __future__ import annotations

import grp
import os
import plistlib
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_house import Cli, end
from system_house import DEMO, PATIENCE, until

from semel.faces.service import installation
from semel.faces.service.account import list_account_problems
from semel.faces.service.files import Service, build_plist, build_unit

SYSTEMD = Path("/lib/systemd/systemd")
needs_analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


class Home:
    """A user with an empty home, who types commands."""

    def __init__(self, path: Path, *prefix: str, **env: str) -> None:
        self.path, self.prefix, self.env = path, prefix, env

    def run(self, *command: str, rc: int = 0) -> subprocess.CompletedProcess[str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SEMEL_", "XDG_"))}
        env = {**kept, "HOME": str(self.path), "COLUMNS": "200", **self.env}
        done = subprocess.run(
            [*self.prefix, *command], env=env, cwd=self.path, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == rc, (command, done)
        return done

    def semel(self, *args: str, rc: int = 0) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "semel", *args, rc=rc)

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path, XDG_RUNTIME_DIR=str(tmp_path))


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path, tmp_path / "data")


@needs_analyze
@pytest.mark.parametrize("options", [(), ("--system", "--run-as", "daemon", "--data-dir", "/var/lib/semel")])
def test_systemd_has_nothing_to_complain_of_in_the_unit(home: Home, cli: Cli, options: tuple[str, ...]) -> None:
    config = ("--config", str(home.write("semel.toml", DEMO))) if options else ()
    unit = home.write("semel.service", cli("service", "print", *options, *config).stdout)
    done = home.run("systemd-analyze", *(() if options else ("--user",)), "verify", "--man=no", str(unit))
    assert "semel.service" not in done.stderr
    if options:
        home.run("systemd-analyze", "security", "--offline=true", "--threshold=55", str(unit))


def test_words_with_blanks_quotes_and_percent_signs_survive_the_unit() -> None:
    unit = build_unit(Service(["/opt/a b/semel", 'say "hi"', "100%", "$HOME"], "/a b:/c", Path("/x%y/environment")))
    assert 'ExecStart="/opt/a b/semel" "say \\"hi\\"" 100%% $$HOME' in unit
    assert 'Environment="PATH=/a b:/c"' in unit
    assert "EnvironmentFile=-/x%%y/environment" in unit


def test_launchd_gets_the_command_the_path_and_the_variables(tmp_path: Path) -> None:
    service = Service(["/opt/semel", "up"], "/opt/bin:/usr/bin", tmp_path / "environment")
    plist = plistlib.loads(build_plist(service, {"TOKEN": "t"}, tmp_path / "semel.log"))
    assert plist["ProgramArguments"] == ["/opt/semel", "up"]
    assert plist["EnvironmentVariables"] == {"TOKEN": "t", "PATH": "/opt/bin:/usr/bin"}
    assert plist["KeepAlive"] == {"SuccessfulExit": False}
    assert plist["AbandonProcessGroup"] is True


def test_a_configuration_that_the_service_cannot_read_is_refused_before_anything_is_installed(
    home: Home, cli: Cli
) -> None:
    home.write(".config/semel/semel.toml", '[channels.chat]\nkind = "telegram"\ntoken = "env:CHAT_TOKEN"\n')
    done = cli("service", "install", "--no-start", rc=2)
    assert "CHAT_TOKEN is not set" in done.stderr and "semel/environment: a line NAME=value" in done.stderr
    assert not (home.path / ".config/systemd").exists()
    home.write(".config/semel/environment", "# secrets\nCHAT_TOKEN='123456789:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'\n")
    done = cli("service", "install", "--no-start")
    assert Path(done.stdout.strip()) == home.path / ".config/systemd/user/semel.service"
    assert "AAAA" not in Path(done.stdout.strip()).read_text(), "a unit can be read by everybody"


def test_the_advice_to_restart_names_the_command_of_an_installed_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = {system: tmp_path / f"{system}.service" for system in (False, True)}
    monkeypatch.setattr(installation, "service_file", units.__getitem__)
    monkeypatch.setattr(sys, "platform", "linux")
    assert installation.advise_restart().endswith("at its start only")
    units[True].touch()
    assert installation.advise_restart().endswith(": sudo systemctl restart semel")
    units[False].touch()
    assert installation.advise_restart().endswith(": systemctl --user restart semel")


def test_mistakes_are_explained(home: Home, cli: Cli) -> None:
    assert "there is no service to remove" in cli("service", "uninstall", rc=1).stderr
    done = cli("service", "install", "--system", "--run-as", "no-such-user", rc=1)
    assert "useradd --system --create-home --shell /bin/sh no-such-user" in done.stderr
    config = home.write("semel.toml", '[gateway]\ndata_dir = "~/data"\n')
    done = cli("service", "print", "--system", "--run-as", "daemon", "--config", str(config))
    assert "use a path that begins with /" in done.stderr
    assert "add --system" in cli("service", "print", "--run-as", "daemon", rc=2).stderr


@pytest.mark.root
def test_a_system_service_is_refused_if_its_user_can_not_run_it(home: Home, cli: Cli) -> None:
    home.path.chmod(0o700)
    config = home.write("semel.toml", DEMO)
    open_to_all = home.write("open.sh", "#!/bin/sh\n")
    open_to_all.chmod(0o755)
    told = list(list_account_problems("nobody", [str(open_to_all)], config))
    assert "home directory of nobody, /nonexistent, does not exist" in told[0]
    assert f"nobody cannot run {open_to_all} (Permission denied)" in told[1]
    assert f"nobody cannot read {config}" in told[2] and "chgrp nogroup" in told[2]
    assert list(list_account_problems("daemon", ["/bin/true"], Path("/etc/passwd"))) == []
    assert list(list_account_problems("root", [str(open_to_all)], config)) == []
    done = cli("service", "install", "--system", "--run-as", "nobody", "--config", str(config), rc=1)
    assert "does not exist" in done.stderr


def test_install_for_the_whole_system_says_first_that_it_needs_root(
    home: Home, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    lines = cli("service", "install", "--system", "--run-as", "no-such-user", rc=1).stderr.splitlines()
    assert "--system needs root: run this command with sudo" in lines[0]
    assert any("there is no user 'no-such-user'" in line for line in lines[1:])


def test_a_reason_that_ends_with_a_full_stop_gets_no_second_one(
    home: Home, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = home.path / "programs"
    programs.mkdir()
    systemctl = programs / "systemctl"
    systemctl.write_text('#!/bin/sh\necho "System has not been booted. Can\'t operate." >&2\nexit 1\n')
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert "Can't operate. Nothing was installed" in cli("service", "install", rc=1).stderr


def test_print_shows_the_unit_and_tells_on_stderr_what_install_would_refuse(
    home: Home, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "SYSTEM_CONFIG", home.path / "etc" / "semel.toml")
    home.write(".config/semel/semel.toml", '[channels.chat]\nkind = "telegram"\ntoken = "env:CHAT_TOKEN"\n')
    done = cli("service", "print")
    assert "ExecStart=" in done.stdout and f"--config {home.path}/.config/semel/semel.toml " in done.stdout
    assert "service install` would refuse this service:" in done.stderr and "CHAT_TOKEN is not set" in done.stderr
    done = cli("service", "print", "--system", "--run-as", "no-such-user")
    assert f"--config {installation.SYSTEM_CONFIG} --data-dir /var/lib/semel " in done.stdout
    assert "there is no user 'no-such-user'" in done.stderr and "and there is none" in done.stderr
    home.write("etc/semel.toml", "[gateway")
    done = cli("service", "print", "--system", "--run-as", "daemon")
    assert "User=daemon" in done.stdout and "this is not TOML" in done.stderr
    cli("service", "print", "--config", "no-such-file.toml", rc=2)


def test_a_system_service_never_takes_the_configuration_of_the_person_who_installs_it(
    home: Home, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = home.write(".config/semel/semel.toml", DEMO)
    monkeypatch.setattr(installation, "SYSTEM_CONFIG", home.path / "etc" / "semel.toml")
    group = grp.getgrgid(pwd.getpwnam("daemon").pw_gid).gr_name
    for command, rc in (("print", 0), ("install", 1)):
        said = cli("service", command, "--system", "--run-as", "daemon", rc=rc).stderr
        assert f"install -D -g {group} -m 640 {own} {installation.SYSTEM_CONFIG}" in said and "--config FILE" in said
    home.write("etc/semel.toml", DEMO)
    unit = cli("service", "print", "--system", "--run-as", "daemon").stdout
    assert f"--config {installation.SYSTEM_CONFIG} " in unit


def test_an_open_file_of_secrets_and_a_gateway_that_runs_already_are_told(home: Home, cli: Cli) -> None:
    secrets = home.write(".config/semel/environment", "KEY=1234\n")
    secrets.chmod(0o644)
    gateway = cli.up()
    try:
        told = cli("service", "install", rc=1).stderr
        assert f"a gateway that is not the service runs on {cli.data}: stop it before" in told
        assert not (home.path / ".config/systemd/user/semel.service").exists()
        assert "a gateway that is not the service" in cli("service", "install", "--no-start").stderr
    finally:
        end(gateway)
    assert f"chmod 600 {secrets}" in cli("service", "print").stderr
    secrets.chmod(0o600)
    assert cli("service", "print").stderr == ""


@pytest.mark.skipif(shutil.which("systemctl") is None, reason="systemctl is not installed")
def test_where_no_systemd_runs_nothing_is_installed_and_what_to_do_is_said(
    home: Home, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={home.path}/none")  # never this machine's own systemd
    said = cli("service", "install", rc=1).stderr
    assert "systemd does not run here, or you became this user by su" in said
    assert "Nothing was installed; to write the file alone: semel service install --no-start" in said
    unit = home.path / ".config/systemd/user/semel.service"
    assert not unit.exists()
    said = cli("service", "install", "--no-start").stderr
    assert "start it: systemctl --user daemon-reload; systemctl --user enable --now semel" in said
    unit.write_text("# mine\n")
    assert f"{unit} is as it was before" in cli("service", "install", rc=1).stderr
    assert unit.read_text() == "# mine\n"
    monkeypatch.setattr(installation, "SYSTEMD_RUNS", home.path / "none")
    assert f"removed: {unit}" in cli("service", "uninstall").stderr
    assert not unit.exists()


# ---------------------------------------------------------------- a real systemd

START = "mount -t tmpfs tmpfs /run/systemd && mkdir /run/systemd/system && exec {} --user --unit=basic.target"


@pytest.fixture
def booted(tmp_path: Path) -> Iterator[Home]:
    """A user whose own systemd runs, in a mount namespace in which the machine seems to be booted with systemd."""
    if not SYSTEMD.exists():
        pytest.skip("systemd is not installed")
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    Path("/run/systemd").mkdir(exist_ok=True)
    env = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(runtime), "PATH": os.environ["PATH"]}
    systemd = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", START.format(SYSTEMD)], env=env,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    home = Home(
        tmp_path, "nsenter", f"--target={systemd.pid}", "--mount", f"--wd={tmp_path}", XDG_RUNTIME_DIR=str(runtime)
    )
    try:
        until(lambda: (runtime / "systemd" / "private").exists(), "systemd runs")
        yield home
    finally:
        systemd.send_signal(signal.SIGTERM)
        systemd.wait(PATIENCE)


def show(home: Home, name: str) -> str:
    return home.run("systemctl", "--user", "show", "--value", f"--property={name}", "semel.service").stdout.strip()


def restarted(home: Home, times: int, old: int) -> int:
    """Wait until systemd has restarted the gateway so many times. Returns its new pid."""
    until(lambda: show(home, "NRestarts") == str(times) and show(home, "ActiveState") == "active", "it is up again")
    pid = int(show(home, "MainPID"))
    assert pid != old
    return pid


@pytest.mark.long
@pytest.mark.root
def test_a_real_systemd_starts_watches_restarts_and_removes_the_gateway(booted: Home) -> None:
    booted.write(".config/semel/semel.toml", '[gateway]\nlisten = "127.0.0.1:0"\n' + DEMO)
    quick = "[Service]\nWatchdogSec=3\nRestartSec=100ms\n"
    booted.write(".config/systemd/user/semel.service.d/quick.conf", quick)
    file = Path(booted.semel("service", "install").stdout.strip())
    assert show(booted, "ActiveState") == "active", "install returns once the gateway is ready"
    until(lambda: "serving http://127.0.0.1:" in show(booted, "StatusText"), "its status")
    assert "hello" in booted.semel("say", "demo:web:a", '[[script {"steps": ["hello"]}]]', "--wait").stdout

    pid = int(show(booted, "MainPID"))
    os.kill(pid, signal.SIGKILL)
    pid = restarted(booted, 1, pid)
    os.kill(pid, signal.SIGSTOP)  # it hangs
    restarted(booted, 2, pid)
    assert "hello" in booted.semel("show", "demo:web:a").stdout

    booted.semel("service", "uninstall")
    assert not file.exists()
    assert show(booted, "ActiveState") == "inactive"
    assert booted.semel("doctor").returncode == 0, "the books hold"
