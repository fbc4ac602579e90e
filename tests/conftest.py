"""What holds for every test."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from functools import cache
from pathlib import Path
from ssl import SSLContext

import httpcore2
import pytest

from quick_ledgers import choose_creation

# As installed: where `semel` is not on PATH, advice names another command (`semel.installation`).
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


_read_certificates = httpcore2.default_ssl_context


@cache
def _share_tls_context(file: str | None, folder: str | None, trust_env: bool) -> SSLContext:
    return _read_certificates(_trust_env=trust_env)


def _find_tls_context(*, _trust_env: bool = True) -> SSLContext:
    """The HTTP clients of a process share the system's certificates: to read them takes 25 ms of a core."""
    return _share_tls_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"), _trust_env)


httpcore2.default_ssl_context = _find_tls_context


def pytest_configure(config: pytest.Config) -> None:
    """Gateways of tests are listed among the running ones of this run, not of this user."""
    config.stash[_STATE_HOME] = state_home = tempfile.TemporaryDirectory()
    os.environ["XDG_STATE_HOME"] = state_home.name


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected, half a million objects, stays to the end: no search for garbage goes through it.

    Searches are rarer, too: after 700 objects, Python's default, they take a sixth of the time of some tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(OBJECTS_BETWEEN_SEARCHES, 10, 10)
        gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_STATE_HOME].cleanup()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One line on what was skipped and why, however many tests that were."""
    reasons = Counter(_skip_reason(report) for report in terminalreporter.stats.get("skipped", []))
    if reasons:
        counts = "; ".join(f"{count}: {reason}" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"skipped {reasons.total()} tests ({counts})", yellow=True)
    if config.stash.get(_SKIPPED, 0):
        terminalreporter.section("a skipped test is a failure in CI", red=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Where CI is set, a test that was skipped proves nothing: the run fails."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = len(reporter.stats.get("skipped", [])) if reporter else 0
    if os.environ.get("CI") and skipped:
        session.config.stash[_SKIPPED] = skipped
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


OBJECTS_BETWEEN_SEARCHES = 20_000
SLOWEST = (
    *("invariant/test_invariant.py", "system/test_system_agents.py", "http/test_http_page.py"),
    *("ledger/test_machine.py", "conformance/test_channel_template.py", "samples/test_samples.py", "cli/test_init.py"),
    *("outbox/test_streaming.py", "gateway/test_left_behind.py", "cli/test_agents_command.py"),
    *("people/test_agent_files.py", "background/test_jobs.py", "gateway/test_cut_echoes.py"),
    *("http/test_http_page_view.py", "cli/test_chat.py"),
    *("model/test_model_failures.py", "gateway/test_block_parts.py", "test_project.py"),
    *("gateway/test_edited_originals.py", "cli/test_missing_agent.py", "faces/test_said_terminal.py"),
    "cli/test_doctor.py",
)
"""The files that take longest, begun first: else a run with several workers waits for the last of them at its end."""
SERVERS = {"synapse": "matrix", "prosody": "xmpp", "inspircd": "irc", "ngircd": "irc", "mail_server": "email"}
"""The fixtures of tests/servers, and for which channel each is (`make test-channels CHANNELS="matrix"`)."""
FOLDERS = {"matrix": "matrix", "xmpp": "xmpp", "irc": "irc", "email_channel": "email"}
"""The folders whose tests with the marker `channels` need that server, also where they start one of their own."""


def _skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def pytest_runtest_setup(item: pytest.Item) -> None:
    choose_creation(item)
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("only root can be two users, or mount")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that were not chosen are left out, not skipped: LEFT_TO_ROOT=1, CHANNELS="matrix xmpp"."""
    ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))
    if os.environ.get("LEFT_TO_ROOT"):
        _deselect(config, items, {item for item in items if item.get_closest_marker("root")})
    chosen = set(os.environ.get("CHANNELS", "").split())
    if not chosen:
        return
    _deselect(config, items, {item for item in items if not _needed_channels(item) <= chosen})


def _needed_channels(item: pytest.Item) -> set[str]:
    """The channels whose real servers a test needs."""
    needed = {SERVERS[name] for name in getattr(item, "fixturenames", ()) if name in SERVERS}
    if item.get_closest_marker("channels") and item.path.parent.name in FOLDERS:
        needed.add(FOLDERS[item.path.parent.name])
    return needed


def _deselect(config: pytest.Config, items: list[pytest.Item], left_out: set[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


_SKIPPED = pytest.StashKey[int]()
_STATE_HOME = pytest.StashKey[tempfile.TemporaryDirectory[str]]()
