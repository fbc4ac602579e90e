"""The files by which a service manager starts the gateway: a unit of systemd, or a property list of launchd.

Agents run inside the service, so the unit keeps what they need: their home directory, the network, devices (GPUs), and
the kernel's namespaces, of which agents build sandboxes for their commands. docs/operate.md says which protections are
off for that reason, and what was measured.
"""

from __future__ import annotations

import plistlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LAUNCHD_LABEL = "org.semel.gateway"
EXIT_TIMEOUT_S = 120  # how long a stop may take before the manager kills the gateway


@dataclass(frozen=True)
class Service:
    """What the service runs.

    `command`: the whole command line. `path`: the PATH on which agents are found. `variables`: a file of NAME=value
    lines with secrets. `account`: the user of a system service; "" for a service of the installing user. `state`: the
    name below /var/lib of the data directory that systemd has to make; "" for none.
    """

    command: Sequence[str]
    path: str
    variables: Path
    account: str = ""
    state: str = ""


HARDENING = ("NoNewPrivileges", "LockPersonality", "RestrictRealtime", "RestrictSUIDSGID")
"""Protections that agents survive, and that a user's own systemd can give, too."""

SYSTEM_HARDENING = (
    "ProtectClock", "ProtectControlGroups", "ProtectHostname", "ProtectKernelModules",
)  # fmt: skip
"""Protections that only the system's systemd can give."""


def build_unit(service: Service) -> str:
    """Return the systemd unit."""
    is_system = bool(service.account)
    network = ["After=network-online.target", "Wants=network-online.target"] if is_system else []
    lines = [
        "[Unit]",
        "Description=Semel, a gateway between people and AI agents",
        *network,
        "# A port that is taken now may be free in a minute: it is tried again for as long as it takes.",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=notify",
        f"ExecStart={' '.join(_quote_word(word).replace('$', '$$') for word in service.command)}",
        *([f"User={service.account}"] if is_system else []),
        *([f"StateDirectory={service.state}", "StateDirectoryMode=0700"] if service.state else []),
        "WorkingDirectory=~",
        f"Environment={_quote_word(f'PATH={service.path}')}",
        f"EnvironmentFile=-{_escape_specifiers(str(service.variables))}",
        "Restart=on-failure",
        "RestartSec=5",
        "# 2: the configuration is wrong, and stays so until somebody mends it.",
        "RestartPreventExitStatus=2",
        "# A new version may have to upgrade a large ledger.",
        "TimeoutStartSec=15min",
        f"TimeoutStopSec={EXIT_TIMEOUT_S}",
        "WatchdogSec=120",
        "# The gateway ends its agents itself. Their background jobs go on, and the next start takes their reports.",
        "KillMode=process",
        "# Memory that runs out ends one agent, not the gateway.",
        "OOMPolicy=continue",
        "UMask=0077",
        *(f"{name}=yes" for name in (*HARDENING, *(SYSTEM_HARDENING if is_system else ()))),
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
        "SystemCallArchitectures=native",
        *(["CapabilityBoundingSet=", "ProtectSystem=full"] if is_system else []),
        "",
        "[Install]",
        f"WantedBy={'multi-user' if is_system else 'default'}.target",
    ]
    return "\n".join(lines) + "\n"


def _escape_specifiers(value: str) -> str:
    """Escape what systemd would replace in a value (systemd.unit(5), "Specifiers")."""
    return value.replace("%", "%%")


def _quote_word(word: str) -> str:
    """Quote one word of a command line or an assignment (systemd.service(5), "Command lines")."""
    escaped = _escape_specifiers(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if not word or set(escaped) & set(" \t\"'\\;") else escaped


def build_plist(service: Service, variables: Mapping[str, str], log: Path) -> bytes:
    """Return the property list of launchd, which reads no file of variables: `variables` are written into it.

    `log`: the file for what the gateway logs.
    """
    return plistlib.dumps({
        "Label": LAUNCHD_LABEL,
        "ProgramArguments": list(service.command),
        "EnvironmentVariables": {**variables, "PATH": service.path},
        "WorkingDirectory": str(Path.home()),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ExitTimeOut": EXIT_TIMEOUT_S,
        "AbandonProcessGroup": True,  # background jobs go on
        "ProcessType": "Interactive",
        "Umask": 0o077,
        "StandardErrorPath": str(log),
        "StandardOutPath": str(log),
    })  # fmt: skip
