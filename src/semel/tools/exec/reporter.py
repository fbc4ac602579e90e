"""Post the spool's reports to the gateway, in order, until each is acknowledged.

Only a gateway's own answer counts as an acknowledgement. If the gateway is unreachable, or a proxy answers in its
place, the post is repeated with exponential backoff; the start of a gateway on this machine ends the pause. A refusal
(wrong token, not in scope ...) is shown to the user and retried when the run has something new to report. A report
stays in the spool until it is acknowledged.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx2

from semel.tools import owned
from semel.tools.address import GATEWAY_FILE, Address, NoGateway, look
from semel.tools.exec.spool import Report, Run

MIN_RETRY_DELAY_S, MAX_RETRY_DELAY_S = 0.25, 30.0  # seconds
GATEWAY_CHECK_INTERVAL_S = 1.0  # seconds between checks whether a gateway was started here
MAX_RETRY_AFTER_S = 600.0  # seconds; a longer Retry-After is cut to this
HTTP_TIMEOUT = httpx2.Timeout(15, connect=5)
PROBLEM_URN = "urn:semel:problem:"


@dataclass(frozen=True)
class Target:
    """Where a run reports to: an explicit URL and token file, or by default the gateway of the data directory."""

    data_dir: Path
    url: str | None = None
    token_file: Path | None = None

    def address(self) -> tuple[str, str]:
        """The current (URL, token); the token is "" if none is sent. Raises NoGateway, OSError or ValueError."""
        own = Address.of(self.data_dir) if self.url is None else Address(self.url.rstrip("/"), "")
        if self.token_file is None:
            return own.url, own.token
        return own.url, read_token(self.token_file)

    @property
    def anybodys(self) -> bool:
        """Whether another user's gateway is acceptable: the user named its URL and gave a node's token for it."""
        return self.url is not None and self.token_file is not None

    def told(self) -> dict[str, str]:
        """The target as stored in run.json; `of` reads it back."""
        told = {"data_dir": str(self.data_dir), "url": self.url, "token_file": self.token_file}
        return {name: str(value) for name, value in told.items() if value is not None}

    def sign(self) -> tuple[int, int] | None:
        """Identify the running gateway by its address file: a different value means that it was restarted. `None` if
        there is no such file, or if the URL was given explicitly."""
        if self.url is not None:
            return None
        try:
            found = (self.data_dir / GATEWAY_FILE).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    @classmethod
    def of(cls, told: dict[str, str]) -> Target:
        token_file = told.get("token_file")
        return cls(Path(told["data_dir"]), told.get("url"), Path(token_file) if token_file else None)


def read_token(path: Path) -> str:
    """Read a token file. Raises ValueError with a message that says what to do."""
    try:
        token = owned.read(path, link=True).decode(errors="replace").strip()
    except owned.NotOurs as error:
        raise ValueError(str(error)) from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    if not token or not token.isascii() or not token.isprintable():
        raise ValueError(f"{path} holds no token: write the node's token into it, in one line")
    return token


class Verdict(NamedTuple):
    """The meaning of an answer: `what` is "taken", "conflict", "refused" or "later"; `after` is the least delay in
    seconds before the next attempt."""

    what: str
    why: str = ""
    after: float = 0.0


@dataclass
class Line:
    """The reports of one run, posted in order, with the state of their retries.

    due        when to try next (monotonic seconds)
    tried      whether, since the last news, an attempt must be repeated or the last open report was attempted
    why        why the last attempt failed
    """

    run: Run
    to: Target
    due: float = 0.0
    failures: int = 0
    tried: bool = False
    why: str = ""
    sign: tuple[int, int] | None = None  # `to.sign()` at the last attempt
    notes: list[str] = field(default_factory=list)

    @property
    def open(self) -> list[Report]:
        return [report for report in self.run.reports if report.state == "open"]

    @property
    def refused(self) -> list[Report]:
        return [report for report in self.run.reports if report.state == "refused"]


class Reporter:
    """A thread that posts the reports of all added runs; runs that were added earlier come first."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="exec reporter", daemon=True)

    def __repr__(self) -> str:
        return f"<Reporter {[(line.run.id, len(line.open), line.why) for line in self.lines]}>"

    def start(self) -> None:
        self._thread.start()

    def add(self, run: Run, to: Target) -> Line:
        line = Line(run, to)
        with self._changed:
            self.lines.append(line)
            self._changed.notify_all()
        return line

    def news(self, line: Line) -> None:
        """Wake the thread for a new report; refused ones are tried once more, too."""
        with self._changed:
            for report in line.refused:
                report.state = "open"
            line.due, line.tried = 0.0, False
            self._changed.notify_all()

    def wait(self, lines: Sequence[Line], seconds: float, leave: threading.Event) -> bool:
        """Wait until these runs have no open report; True if so. Gives up after `seconds`, but not before each was
        attempted, or when `leave` is set."""
        end = time.monotonic() + seconds
        with self._changed:
            while any(line.open and (not line.tried or time.monotonic() < end) for line in lines):
                if leave.is_set():
                    break
                self._changed.wait(0.1)
            return not any(line.open for line in lines)

    def stop(self, patience: float = HTTP_TIMEOUT.read or 15) -> bool:
        """Make no further attempts and wait up to `patience` seconds for the current one; True if the thread ended."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(patience)
        return not self._thread.is_alive()

    # ------------------------------------------------------------ the thread

    def _work(self) -> None:
        with httpx2.Client(timeout=HTTP_TIMEOUT, trust_env=False) as http:
            while (line := self._next()) is not None:
                self._attempt(http, line)

    def _next(self) -> Line | None:
        with self._changed:
            while not self._stopped:
                waiting = [line for line in self.lines if line.open]
                now = time.monotonic()
                due = next((line for line in waiting if line.due <= now or _reset_if_gateway_started(line)), None)
                if due is not None:
                    return due
                soonest = min((line.due for line in waiting), default=None)
                self._changed.wait(None if soonest is None else min(soonest - now, GATEWAY_CHECK_INTERVAL_S))
        return None

    def _attempt(self, http: httpx2.Client, line: Line) -> None:
        report, line.sign = line.open[0], line.to.sign()
        verdict = post(http, line.to, str(line.run.about["session"]), report.body)
        with self._changed:
            line.tried = line.tried or verdict.what == "later" or len(line.open) == 1
            if verdict.what == "later":
                pause = min(MIN_RETRY_DELAY_S * 2**line.failures, MAX_RETRY_DELAY_S) * random.uniform(0.5, 1)
                line.due = time.monotonic() + max(pause, verdict.after)
                line.failures = min(line.failures + 1, 16)
                line.why = verdict.why
            else:
                line.failures, line.why = 0, ""
                self._settle(line, report, verdict)
            self._changed.notify_all()

    def _settle(self, line: Line, report: Report, verdict: Verdict) -> None:
        if verdict.what == "refused":
            report.state, report.why = "refused", verdict.why
            return
        if verdict.what == "conflict":  # the gateway has recorded both contents, so the report is done
            line.notes.append(verdict.why)
        line.run.settle(report)


def _reset_if_gateway_started(line: Line) -> bool:
    """Whether a gateway was started since the last attempt; if so, ends the run's backoff, which was meant for the
    previous one."""
    if line.to.sign() in (None, line.sign):
        return False
    line.failures, line.due = 0, 0.0  # holds for all its reports
    return True


# ---------------------------------------------------------------- one attempt


def post(http: httpx2.Client, to: Target, session: str, body: dict[str, Any]) -> Verdict:
    """Post one report once and return the verdict. Network errors become "later"."""
    try:
        url, token = to.address()
    except (NoGateway, OSError, ValueError) as error:
        return Verdict("later", str(error))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers["Content-Type"] = "application/json"
    more = _connection_check(to, url, headers)
    try:
        path = f"/v1/sessions/{quote(session, safe=':@!+=~')}/events"
        content = json.dumps(body, ensure_ascii=False)
        return judge_response(http.post(url + path, content=content, headers=headers, extensions=more), url)
    except NoGateway as error:
        return Verdict("later", str(error))
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return Verdict("later", f"{url} does not answer: {str(error) or type(error).__name__}")


def _connection_check(to: Target, url: str, headers: dict[str, str]) -> dict[str, Any]:
    """The httpx extensions that check the peer's user. Not needed with TLS, or if any user's gateway is acceptable."""
    if url.startswith("https:"):
        return {}
    if to.anybodys:
        headers["Connection"] = "close"  # a later report must not reuse this unchecked connection
        return {}
    return {"trace": look}


def judge_response(response: httpx2.Response, url: str) -> Verdict:
    """Interpret a response. Only a gateway's own format counts: a proxy's page neither acknowledges nor refuses."""
    try:
        told = response.json()
        told = told if isinstance(told, dict) else {}
    except (ValueError, RecursionError):
        told = {}
    status = response.status_code
    if status == 202 and told.get("status") in ("accepted", "duplicate") and isinstance(told.get("event"), int):
        return Verdict("taken")
    kind = str(told.get("type"))
    detail = str(told.get("detail") or told.get("title") or "")
    if not kind.startswith(PROBLEM_URN):
        return Verdict("later", f"{url} answers {status} with what is no answer of a gateway", _after(response))
    if kind == f"{PROBLEM_URN}conflict":
        why = f"{detail} (event e{told.get('event')}: kept {told.get('kept')}, given {told.get('given')})"
        return Verdict("conflict", why)
    if status >= 500 or status in (408, 425, 429):
        return Verdict("later", f"{url}: {detail}", _after(response))
    return Verdict("refused", detail)


def _after(response: httpx2.Response) -> float:
    told = response.headers.get("retry-after", "")
    return min(float(told), MAX_RETRY_AFTER_S) if told.isascii() and told.isdigit() else 0.0
