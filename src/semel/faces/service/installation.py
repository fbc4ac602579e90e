"""Install the gateway as a service, and remove it: write the manager's file, and call `systemctl` or `launchctl`."""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from semel.faces.config import ConfigError
from semel.faces.config.load import examine_config_file
from semel.faces.config.paths import find_config_file, find_data_dir, may_exist, read_config_file
from semel.faces.service.account import list_account_problems, name_group
from semel.faces.service.files import LAUNCHD_LABEL, Service, build_plist, build_unit
from semel.tools.address import list_running

UNIT = "semel.service"
SYSTEM_CONFIG = Path("/etc/semel/semel.toml")
SYSTEM_DATA = Path("/var/lib/semel")
SYSTEMD_RUNS = Path("/run/systemd/system")  # there if the machine was booted with systemd: sd_booted(3)
INHERITED = ("HOME", "USER", "LOGNAME", "LANG", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
"""Variables that a service manager sets to the same value as the installing shell has."""


class ServiceError(Exception):
    """The service could not be installed or removed. The message gives the reason and what to do."""


Obstacle = ServiceError | ConfigError


@dataclass(frozen=True)
class Installation:
    """A service, and the file that its manager reads.

    is_system   it belongs to the system and not to one user
    obstacles   why it would not start; `install` raises them
    remarks     what should be corrected, although it starts
    """

    service: Service
    file: Path
    is_system: bool
    data_dir: Path
    obstacles: tuple[Obstacle, ...] = ()
    remarks: tuple[str, ...] = ()

    def render(self) -> bytes:
        """Return the content of the file."""
        if sys.platform == "darwin":
            log = Path.home() / "Library" / "Logs" / "semel.log"
            return build_plist(self.service, read_variables(self.service.variables), log)
        return build_unit(self.service).encode()


def plan_installation(config: Path | None, data_dir: Path | None, *, system: bool, account: str) -> Installation:
    """Plan the service of this configuration, which is checked as the service will read it.

    `account`: the user of a system service. What `install` will refuse is collected in the plan's `obstacles`. Raises
    ServiceError for --system on macOS, and ConfigError if `config` does not exist.
    """
    if system and sys.platform == "darwin":
        raise ServiceError("--system is for systemd; on macOS, install the service without it, as the user who runs it")
    obstacles: list[Obstacle] = []
    variables, defined = _variables_file(system), {}
    with _collect(obstacles):
        defined = read_variables(variables)
    names = INHERITED if system else (*INHERITED, "SEMEL_CONFIG", "SEMEL_DATA")  # these become options of the command
    env = {name: os.environ[name] for name in names if name in os.environ}
    env |= {"PATH": os.environ.get("PATH", os.defpath), **defined}
    if system:
        obstacles += map(ServiceError, list_account_problems(account, find_program(), config or SYSTEM_CONFIG))
        if config is None and not may_exist(SYSTEM_CONFIG):
            obstacles.append(_explain_missing_config(account))
        with _collect(obstacles):
            data_dir = data_dir or _system_data_dir(config or SYSTEM_CONFIG)
    path = SYSTEM_CONFIG if system and config is None else find_config_file(config, env)
    data = _check_config(path, data_dir, env, variables, obstacles)
    with _collect(obstacles):
        _check_program()
    command = [*find_program(), "up", *(["--config", str(path)] if path else [])]
    command += ["--data-dir", str(data), "--log", "json"]
    state = data.name if system and data.parent == SYSTEM_DATA.parent else ""
    service = Service(command, env["PATH"], variables, account if system else "", state)
    remarks = tuple(_list_open_files(variables))
    return Installation(service, service_file(system), system, data, tuple(obstacles), remarks)


def _list_open_files(variables: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        if stat.S_IMODE(variables.stat().st_mode) & 0o077:
            yield f"{variables} can be read by other users, and secrets may be in it: chmod 600 {variables}"


@contextlib.contextmanager
def _collect(obstacles: list[Obstacle]) -> Iterator[None]:
    """Add the error that the block raises to the obstacles. Then the block ends, and the caller goes on."""
    try:
        yield
    except (ServiceError, ConfigError) as error:
        obstacles.append(error)


def _check_config(
    path: Path | None, data_dir: Path | None, env: Mapping[str, str], variables: Path, obstacles: list[Obstacle]
) -> Path:
    """Check the file at `path`, if it is there, and add its mistakes to `obstacles`. Return the data directory."""
    problems: Sequence[str] = ()
    data = find_data_dir(data_dir, None, Path.cwd(), env)
    if path is None or may_exist(path):
        try:
            examined, problems = examine_config_file(path, data_dir, env=env)
            data = examined.gateway.data_dir
        except ConfigError as error:
            problems = error.problems
    if any("environment variable" in problem for problem in problems):
        problems = [*problems, f"The service gets its variables from {variables}: a line NAME=value for each."]
    if problems:
        obstacles.append(ConfigError(*problems))
    return data


def service_file(system: bool) -> Path:
    """Return where the service manager looks for its file."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "LaunchAgents" / f"{LAUNCHD_LABEL}.plist"
    if system:
        return Path("/etc/systemd/system") / UNIT
    return _user_config() / "systemd" / "user" / UNIT


def _user_config() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _variables_file(system: bool) -> Path:
    return (SYSTEM_CONFIG.parent if system else _user_config() / "semel") / "environment"


def _system_data_dir(config: Path) -> Path | None:
    """Return the default data directory of a system service; `None` if the configuration names one."""
    try:
        gateway = read_config_file(config)[1].get("gateway", {}) if may_exist(config) else {}
    except ConfigError:  # reported when the whole file is checked
        return SYSTEM_DATA
    data_dir = gateway.get("data_dir") if isinstance(gateway, dict) else None
    if isinstance(data_dir, str) and data_dir.startswith("~"):  # root's home here, the account's in the service
        raise ServiceError(f"{config}: data_dir is {data_dir!r}. For a system service, use a path that begins with /")
    return None if data_dir else SYSTEM_DATA


def _explain_missing_config(account: str) -> ServiceError:
    """Say that the file which a system service reads by default is not there, and how to put it there.

    The configuration of the person who installs it is not taken: the service's user may be unable to read it, and it
    would change the service when they change their own.
    """
    own = find_config_file(None, os.environ)
    source = shlex.quote(str(own)) if own is not None else "semel.toml"
    return ServiceError(
        f"a system service reads {SYSTEM_CONFIG}, and there is none. Put its configuration there, and let only "
        f"that user's group read it (install -D -g {name_group(account)} -m 640 {source} {SYSTEM_CONFIG}), or name "
        "another file with --config FILE"
    )


def read_variables(path: Path) -> dict[str, str]:
    """Read the NAME=value lines of an `EnvironmentFile=` of systemd; {} if there is no file. Raises ServiceError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise ServiceError(f"{path} cannot be read: {error}") from None
    pairs = [line.strip().partition("=") for line in lines if "=" in line and line.strip()[0] not in "#;"]
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def advise_restart() -> str:
    """Return the advice to restart the gateway, with the command if it is installed as a service."""
    advice = "restart the gateway, which reads settings and tokens at its start only"
    if sys.platform == "darwin":
        command = f"launchctl kickstart -k gui/{os.getuid()}/{LAUNCHD_LABEL}"
        return f"{advice}: {command}" if service_file(False).exists() else advice
    for system, command in ((False, "systemctl --user restart semel"), (True, "sudo systemctl restart semel")):
        if service_file(system).exists():
            return f"{advice}: {command}"
    return advice


def find_program() -> list[str]:
    """Return the absolute command that starts this program."""
    script = Path(sys.executable).with_name("semel")
    return [str(script)] if script.exists() else [sys.executable, "-m", "semel"]


def _check_program() -> None:
    """Raise ServiceError if this program will not stay where it is."""
    python = Path(sys.executable)
    if ".cache" in python.parts or "archive-v0" in python.parts:  # uvx, pipx run
        raise ServiceError(
            "this Semel runs from a cache that may be cleared. Install it first, with pipx install or uv tool install"
        )


def install(planned: Installation, *, start: bool) -> list[str]:
    """Write the file and, if `start`, enable and start the service. Returns remarks to show.

    Raises ServiceError with all obstacles of the plan that are none of the configuration, a line for each; else the
    ConfigError among them; else ServiceError, whose message says whether the file is still there.
    """
    missing = [str(obstacle) for obstacle in planned.obstacles if isinstance(obstacle, ServiceError)]
    if planned.is_system and os.geteuid() != 0:
        missing.insert(0, "--system needs root: run this command with sudo")
    others = list(_list_other_gateways(planned))
    missing += others if start else []
    if missing:
        raise ServiceError("\n".join(missing))
    for mistakes in planned.obstacles:
        raise mistakes
    before = planned.file.read_bytes() if planned.file.is_file() else None
    _write_file(planned.file, planned.render())
    if not start:
        return [*others, _advise_start(planned)]
    try:
        _enable_service(planned)
    except ServiceError as error:
        planned.file.unlink() if before is None else _write_file(planned.file, before)
        result = "Nothing was installed" if before is None else f"{planned.file} is as it was before"
        raise ServiceError(f"{error}. {result}; to write the file alone: semel service install --no-start") from None
    if sys.platform == "darwin":
        return []
    try:
        _run_systemctl(planned.is_system, "restart", UNIT)
    except ServiceError as error:
        log = f"journalctl {'' if planned.is_system else '--user '}-u semel"
        raise ServiceError(
            f"{error}. It is installed ({planned.file}), and did not start: {log} says why; "
            f"semel service uninstall{' --system' if planned.is_system else ''} removes it"
        ) from None
    return [] if planned.is_system or _user_lingers() else [
        f"it ends when you log out. To keep it running: loginctl enable-linger {pwd.getpwuid(os.getuid()).pw_name}"
    ]  # fmt: skip


def _list_other_gateways(planned: Installation) -> Iterator[str]:
    """Yield a sentence if a gateway that cannot be the service, because that is not installed yet, has the data."""
    if not planned.file.exists() and planned.data_dir in list_running():
        yield f"a gateway that is not the service runs on {planned.data_dir}: stop it before the service starts"


def _advise_start(planned: Installation) -> str:
    """Return the advice how to start a service whose file alone was written, now and at each boot or login."""
    if sys.platform == "darwin":
        return f"start it: launchctl bootstrap gui/{os.getuid()} {shlex.quote(str(planned.file))}"
    systemctl = "systemctl" if planned.is_system else "systemctl --user"
    return f"start it: {systemctl} daemon-reload; {systemctl} enable --now {UNIT.removesuffix('.service')}"


def _enable_service(planned: Installation) -> None:
    """Let the service manager read the file and start the service at each boot or login (launchd: and now)."""
    if sys.platform == "darwin":
        _run_command("launchctl", "bootout", f"gui/{os.getuid()}/{LAUNCHD_LABEL}", check=False)
        _run_command("launchctl", "bootstrap", f"gui/{os.getuid()}", str(planned.file))
    else:
        _run_systemctl(planned.is_system, "daemon-reload")
        _run_systemctl(planned.is_system, "enable", UNIT)


def uninstall(system: bool) -> Path:
    """Stop and remove the service; data and configuration stay. Returns the removed file. Raises ServiceError."""
    file = service_file(system)
    if not file.exists():
        raise ServiceError(f"there is no service to remove: {file} does not exist")
    if sys.platform == "darwin":
        _run_command("launchctl", "bootout", f"gui/{os.getuid()}/{LAUNCHD_LABEL}", check=False)
        file.unlink()
        return file
    try:
        _run_systemctl(system, "disable", "--now", UNIT)
    except ServiceError:
        if SYSTEMD_RUNS.is_dir():
            raise
        file.unlink()  # `install --no-start` wrote it, and nothing runs it
        return file
    file.unlink()
    _run_systemctl(system, "daemon-reload")
    return file


def _write_file(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}.{os.getpid()}")
        draft.write_bytes(content)
        draft.chmod(0o600 if sys.platform == "darwin" else 0o644)
        draft.replace(file)
    except OSError as error:
        hint = ": --system needs root" if isinstance(error, PermissionError) else ""
        raise ServiceError(f"{file} cannot be written ({error.strerror}){hint}") from None


def _run_systemctl(system: bool, *args: str) -> None:
    try:
        _run_command("systemctl", *(() if system else ("--user",)), *args)
    except ServiceError as error:
        if "bus" not in str(error):
            raise
        raise ServiceError(
            f"{error}. systemd does not run here, or you became this user by su or sudo: log in as the user, or use "
            "--system"
        ) from None


def _user_lingers() -> bool:
    """Whether the services of this user go on without a login. True if nobody can tell."""
    if shutil.which("loginctl") is None:
        return True
    return "=no" not in _run_command("loginctl", "show-user", str(os.getuid()), "--property=Linger", check=False)


def _run_command(*command: str, check: bool = True) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ServiceError(
            f"{command[0]} is not installed. `semel service print` shows a unit of systemd that you can adapt"
        ) from None
    if check and done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise ServiceError(f"`{' '.join(command)}` failed: {reason[0].removesuffix('.')}")
    return done.stdout
