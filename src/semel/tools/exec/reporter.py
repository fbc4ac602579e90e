"""The reporter: posts what is in the spool, in order, until the gateway has acknowledged it.

An acknowledgement is a gateway's own answer and nothing else. A gateway that is away, or an answer that is no
gateway's, is waited out with a growing pause, which a gateway that starts on this machine ends; a refusal (wrong
token, not in scope ...) is told, and tried again when there is news. Nothing leaves the spool before it was taken.
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

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0  # seconds
WATCH = 1.0  # seconds between two looks whether a gateway was started on this machine
PATIENT_PAUSE = 600.0  # the longest Retry-After that is honoured
TIMEOUT = httpx2.Timeout(15, connect=5)
URN = "urn:semel:problem:"


@dataclass(frozen=True)
class Target:
    """Where a run reports to: an address and a token file of its own, or what the data directory says."""

    data_dir: Path
    url: str | None = None
    token_file: Path | None = None

    def address(self) -> tuple[str, str]:
        """(URL, token; empty where none is shown) as they are now. Raises NoGateway, OSError or ValueError."""
        own = Address.of(self.data_dir) if self.url is None else Address(self.url.rstrip("/"), "")
        if self.token_file is None:
            return own.url, own.token
        return own.url, read_token(self.token_file)

    @property
    def anybodys(self) -> bool:
        """Whether it may be a gateway of another user on this machine: its address was named, with a node's token."""
        return self.url is not None and self.token_file is not None

    def told(self) -> dict[str, str]:
        """For run.json."""
        told = {"data_dir": str(self.data_dir), "url": self.url, "token_file": self.token_file}
        return {name: str(value) for name, value in told.items() if value is not None}

    def sign(self) -> tuple[int, int] | None:
        """Another one: a gateway was started on the data directory, or ended. None: it is not known by a file here."""
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
    """Raises ValueError, which says what to do."""
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
    """What an answer means for a report: taken, refused, or later (after so many seconds at least)."""

    what: str
    why: str = ""
    after: float = 0.0


@dataclass
class Line:
    """The reports of one run; the first that is open goes first."""

    run: Run
    to: Target
    due: float = 0.0
    failures: int = 0
    tried: bool = False
    why: str = ""
    sign: tuple[int, int] | None = None  # of the gateway that was last asked
    notes: list[str] = field(default_factory=list)

    @property
    def open(self) -> list[Report]:
        return [report for report in self.run.reports if report.state == "open"]

    @property
    def refused(self) -> list[Report]:
        return [report for report in self.run.reports if report.state == "refused"]


class Reporter:
    """A thread that reports the runs it was given. Earlier ones come first."""

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
        """There is something new to report: now, and what was refused once more, too."""
        with self._changed:
            for report in line.refused:
                report.state = "open"
            line.due, line.tried = 0.0, False
            self._changed.notify_all()

    def wait(self, lines: Sequence[Line], seconds: float, leave: threading.Event) -> bool:
        """Until nothing of these is open; at most so long, but for one attempt at least. False: it is."""
        end = time.monotonic() + seconds
        with self._changed:
            while any(line.open and (not line.tried or time.monotonic() < end) for line in lines):
                if leave.is_set():
                    break
                self._changed.wait(0.1)
            return not any(line.open for line in lines)

    def stop(self, patience: float = TIMEOUT.read or 15) -> bool:
        """No more attempts; the one under way may end. True: nothing is under way any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(patience)
        return not self._thread.is_alive()

    # ------------------------------------------------------------ the thread

    def _work(self) -> None:
        with httpx2.Client(timeout=TIMEOUT, trust_env=False) as http:
            while (line := self._next()) is not None:
                self._attempt(http, line)

    def _next(self) -> Line | None:
        with self._changed:
            while not self._stopped:
                waiting = [line for line in self.lines if line.open]
                now = time.monotonic()
                due = next((line for line in waiting if line.due <= now or _started(line)), None)
                if due is not None:
                    return due
                soonest = min((line.due for line in waiting), default=None)
                self._changed.wait(None if soonest is None else min(soonest - now, WATCH))
        return None

    def _attempt(self, http: httpx2.Client, line: Line) -> None:
        report, line.sign = line.open[0], line.to.sign()
        verdict = post(http, line.to, str(line.run.about["session"]), report.body)
        with self._changed:
            line.tried = line.tried or verdict.what == "later" or len(line.open) == 1
            if verdict.what == "later":
                pause = min(FIRST_PAUSE * 2**line.failures, LONGEST_PAUSE) * random.uniform(0.5, 1)
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
        if verdict.what == "conflict":  # the gateway keeps both contents: nothing is left to be told
            line.notes.append(verdict.why)
        line.run.settle(report)


def _started(line: Line) -> bool:
    """A gateway was started since the last attempt: the pause before the next one was for its predecessor."""
    if line.to.sign() in (None, line.sign):
        return False
    line.failures, line.due = 0, 0.0  # for all that it has to report
    return True


# ---------------------------------------------------------------- one attempt


def post(http: httpx2.Client, to: Target, session: str, body: dict[str, Any]) -> Verdict:
    """One attempt, and what came of it."""
    try:
        url, token = to.address()
    except (NoGateway, OSError, ValueError) as error:
        return Verdict("later", str(error))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers["Content-Type"] = "application/json"
    more = _watched(to, url, headers)
    try:
        path = f"/v1/sessions/{quote(session, safe=':@!+=~')}/events"
        content = json.dumps(body, ensure_ascii=False)
        return judge(http.post(url + path, content=content, headers=headers, extensions=more), url)
    except NoGateway as error:
        return Verdict("later", str(error))
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return Verdict("later", f"{url} does not answer: {str(error) or type(error).__name__}")


def _watched(to: Target, url: str, headers: dict[str, str]) -> dict[str, Any]:
    """What makes the connection be looked at, unless the other end is known by its certificate or may be anybody's."""
    if url.startswith("https:"):
        return {}
    if to.anybodys:
        headers["Connection"] = "close"  # no other report goes over a connection that was not looked at
        return {}
    return {"trace": look}


def judge(response: httpx2.Response, url: str) -> Verdict:
    """Only a gateway's own words count: a proxy's page is neither an acknowledgement nor a refusal."""
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
    if not kind.startswith(URN):
        return Verdict("later", f"{url} answers {status} with what is no answer of a gateway", _after(response))
    if kind == f"{URN}conflict":
        why = f"{detail} (event e{told.get('event')}: kept {told.get('kept')}, given {told.get('given')})"
        return Verdict("conflict", why)
    if status >= 500 or status in (408, 425, 429):
        return Verdict("later", f"{url}: {detail}", _after(response))
    return Verdict("refused", detail)


def _after(response: httpx2.Response) -> float:
    told = response.headers.get("retry-after", "")
    return min(float(told), PATIENT_PAUSE) if told.isascii() and told.isdigit() else 0.0
