"""Post the spool's reports to the gateway, in order, until each is acknowledged.

Only a gateway's own answer counts as an acknowledgement. If the gateway is unreachable, or a proxy answers in its
place, the post is repeated with exponential backoff; the start of a gateway on this machine ends the pause. A refusal
(wrong token, not in scope ...) is shown to the user. The refused report is posted again when its run has a new report.
A report stays in the spool until it is acknowledged.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from semel.timing.durations import read_retry_after
from semel.tools import trusted_files
from semel.tools.address import GATEWAY_FILE, LOCAL_URL, NoGateway, find_socket
from semel.tools.exec.spool import SpooledReport, SpooledRun

if TYPE_CHECKING:
    import httpx2  # imported by the functions that use it, because a gateway imports this module and posts nothing

MIN_RETRY_DELAY_S, MAX_RETRY_DELAY_S = 0.25, 30.0  # seconds
GATEWAY_CHECK_INTERVAL_S = 1.0  # seconds between checks whether a gateway was started here
MAX_RETRY_AFTER_S = 600.0  # seconds; a longer Retry-After is cut to this
ANSWER_TIMEOUT_S, CONNECT_TIMEOUT_S = 15.0, 5.0
PROBLEM_URN = "urn:semel:problem:"


@dataclass(frozen=True)
class Target:
    """Where a run reports to: an explicit URL and token file, or by default the gateway of the data directory.

    Each run keeps its own target, so a token is sent only to the gateway for which the user named it. Without a token,
    the gateway of the data directory takes the report as its owner's.
    """

    data_dir: Path
    url: str | None = None
    token_file: Path | None = None

    def read_token(self) -> str:
        """Return the token, read from its file each time; "" if no file was named. Raises ValueError."""
        return "" if self.token_file is None else read_token(self.token_file)

    def to_dict(self) -> dict[str, str]:
        """Return the target in the form in which run.json stores it; `from_dict` reads it back."""
        fields = {"data_dir": str(self.data_dir), "url": self.url, "token_file": self.token_file}
        return {name: str(value) for name, value in fields.items() if value is not None}

    def identify_gateway(self) -> tuple[int, int] | None:
        """Return a value that changes when the gateway is restarted: the identity of its address file. `None` if there
        is no such file, or if the URL was given explicitly."""
        if self.url is not None:
            return None
        try:
            status = (self.data_dir / GATEWAY_FILE).stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns

    @classmethod
    def from_dict(cls, fields: dict[str, str]) -> Target:
        token_file = fields.get("token_file")
        return cls(Path(fields["data_dir"]), fields.get("url"), Path(token_file) if token_file else None)


def read_token(path: Path) -> str:
    """Read a token file. Raises ValueError with a message that says what to do."""
    try:
        token = trusted_files.read_file(path, link=True).decode(errors="replace").strip()
    except trusted_files.UntrustedFile as error:
        raise ValueError(str(error)) from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    if not token or not token.isascii() or not token.isprintable():
        raise ValueError(f"{path} holds no token: write the node's token into it, in one line")
    return token


class PostVerdict(NamedTuple):
    """What an answer means for a report: `outcome` is "taken", "conflict", "refused" or "later".

    `reason`: why; of a report that was taken, what the user should know about its session.
    """

    outcome: str
    reason: str = ""
    min_delay_s: float = 0.0  # before the next attempt


@dataclass
class ReportQueue:
    """The reports of one run, posted in order, with the state of their retries.

    next_attempt     when to try next (monotonic seconds)
    attempted        whether, since the last new report, all open reports were attempted or an attempt failed
    failure_reason   why the last attempt failed
    """

    run: SpooledRun
    target: Target
    next_attempt: float = 0.0
    failures: int = 0
    attempted: bool = False
    failure_reason: str = ""
    last_gateway: tuple[int, int] | None = None  # `target.identify_gateway()` at the last attempt
    notes: list[str] = field(default_factory=list)

    @property
    def open_reports(self) -> list[SpooledReport]:
        return [report for report in self.run.reports if report.state == "open"]

    @property
    def refused_reports(self) -> list[SpooledReport]:
        return [report for report in self.run.reports if report.state == "refused"]


class Reporter:
    """A thread that posts the reports of all added runs; a run that was added earlier goes first."""

    def __init__(self) -> None:
        self.queues: list[ReportQueue] = []
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._post_all, name="exec reporter", daemon=True)

    def __repr__(self) -> str:
        return f"<Reporter {[(queue.run.id, len(queue.open_reports), queue.failure_reason) for queue in self.queues]}>"

    def start(self) -> None:
        self._thread.start()

    def add_run(self, run: SpooledRun, target: Target) -> ReportQueue:
        queue = ReportQueue(run, target)
        with self._changed:
            self.queues.append(queue)
            self._changed.notify_all()
        return queue

    def wake(self, queue: ReportQueue) -> None:
        """Tell the thread that the run has a new report. Its refused reports are tried once more, too."""
        with self._changed:
            for report in queue.refused_reports:
                report.state = "open"
            queue.next_attempt, queue.attempted = 0.0, False
            self._changed.notify_all()

    def wait(self, queues: Sequence[ReportQueue], seconds: float, interrupted: threading.Event) -> bool:
        """Wait until these runs have no open report. Returns whether they have none.

        Gives up after `seconds`, but not before each run is `attempted`. Gives up at once if `interrupted` is set.
        """
        end = time.monotonic() + seconds
        with self._changed:
            while any(queue.open_reports and (not queue.attempted or time.monotonic() < end) for queue in queues):
                if interrupted.is_set():
                    break
                self._changed.wait(0.1)
            return not any(queue.open_reports for queue in queues)

    def stop(self, timeout: float = ANSWER_TIMEOUT_S) -> bool:
        """Make no further attempts, and wait up to `timeout` seconds for the current one. Returns whether it ended."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    # ------------------------------------------------------------ the thread

    def _post_all(self) -> None:
        with _open_client() as http:
            while (queue := self._wait_for_due_queue()) is not None:
                self._attempt(http, queue)

    def _wait_for_due_queue(self) -> ReportQueue | None:
        with self._changed:
            while not self._stopped:
                waiting = [queue for queue in self.queues if queue.open_reports]
                now = time.monotonic()
                due_queue = next(
                    (queue for queue in waiting if queue.next_attempt <= now or _reset_if_gateway_started(queue)), None
                )
                if due_queue is not None:
                    return due_queue
                next_due = min((queue.next_attempt for queue in waiting), default=None)
                self._changed.wait(None if next_due is None else min(next_due - now, GATEWAY_CHECK_INTERVAL_S))
        return None

    def _attempt(self, http: httpx2.Client, queue: ReportQueue) -> None:
        report, queue.last_gateway = queue.open_reports[0], queue.target.identify_gateway()
        verdict = post_report(http, queue.target, str(queue.run.info["session"]), report.body)
        with self._changed:
            queue.attempted = queue.attempted or verdict.outcome == "later" or len(queue.open_reports) == 1
            if verdict.outcome == "later":
                pause = min(MIN_RETRY_DELAY_S * 2**queue.failures, MAX_RETRY_DELAY_S) * random.uniform(0.5, 1)
                queue.next_attempt = time.monotonic() + max(pause, verdict.min_delay_s)
                queue.failures = min(queue.failures + 1, 16)
                queue.failure_reason = verdict.reason
            else:
                queue.failures, queue.failure_reason = 0, ""
                self._apply_verdict(queue, report, verdict)
            self._changed.notify_all()

    def _apply_verdict(self, queue: ReportQueue, report: SpooledReport, verdict: PostVerdict) -> None:
        if verdict.outcome == "refused":
            report.state, report.reason = "refused", verdict.reason
            return
        if verdict.outcome == "conflict":  # the gateway has recorded both contents, so the report is done
            queue.notes.append(f"run {queue.run.id}: {verdict.reason}")
        elif verdict.reason:
            queue.notes.append(verdict.reason)
        queue.run.acknowledge(report)


def _reset_if_gateway_started(queue: ReportQueue) -> bool:
    """End the run's backoff if a gateway was started here since the last attempt. Returns whether one was."""
    if queue.target.identify_gateway() in (None, queue.last_gateway):
        return False
    queue.failures, queue.next_attempt = 0, 0.0
    return True


# ---------------------------------------------------------------- one attempt


def post_report(http: httpx2.Client, target: Target, session: str, body: dict[str, Any]) -> PostVerdict:
    """Post one report once and return what the answer means. Network errors mean "later"."""
    import httpx2

    try:
        token = target.read_token()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        path = f"/v1/sessions/{quote(session, safe=':@!+=~')}/events"
        content = json.dumps(body, ensure_ascii=False)
        if target.url is not None:
            return judge_response(
                http.post(target.url.rstrip("/") + path, content=content, headers=headers), target.url
            )
        with _local_client(target.data_dir) as local:
            return judge_response(
                local.post(path, content=content, headers=headers), f"the gateway of {target.data_dir}"
            )
    except (NoGateway, ValueError) as error:
        return PostVerdict("later", str(error))
    except (OSError, httpx2.HTTPError, httpx2.InvalidURL) as error:
        if target.url is None:
            return PostVerdict("later", str(NoGateway(target.data_dir)))
        return PostVerdict("later", f"{target.url} does not answer: {str(error) or type(error).__name__}")


def _local_client(data_dir: Path) -> httpx2.Client:
    """Open an HTTP client of the data directory's gateway. Raises NoGateway, or OSError if nobody answers."""
    path = str(find_socket(data_dir))
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(path)  # httpx2 leaves a socket open whose connection is refused
    return _open_client(path)


def _open_client(unix_socket: str | None = None) -> httpx2.Client:
    """Open an HTTP client: for any URL, or for the gateway that listens on a unix socket."""
    import httpx2

    timeout = httpx2.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    if unix_socket is None:
        return httpx2.Client(timeout=timeout, trust_env=False)
    transport = httpx2.HTTPTransport(uds=unix_socket, verify=False, trust_env=False)  # there is no TLS to set up
    return httpx2.Client(transport=transport, base_url=LOCAL_URL, timeout=timeout, trust_env=False)


def judge_response(response: httpx2.Response, sender: str) -> PostVerdict:
    """Interpret a response. Only a gateway's own format counts: a proxy's page neither acknowledges nor refuses."""
    try:
        answer = response.json()
        answer = answer if isinstance(answer, dict) else {}
    except (ValueError, RecursionError):
        answer = {}
    status = response.status_code
    if status == 202 and answer.get("status") in ("accepted", "duplicate") and isinstance(answer.get("event"), int):
        return PostVerdict("taken", str(answer.get("note") or ""))
    kind = str(answer.get("type"))
    detail = str(answer.get("detail") or answer.get("title") or "")
    if not kind.startswith(PROBLEM_URN):
        return PostVerdict("later", f"{sender} answers {status}, but not as a gateway", _read_delay(response))
    if kind == f"{PROBLEM_URN}conflict":
        reason = f"{detail} (event e{answer.get('event')}: kept {answer.get('kept')}, given {answer.get('given')})"
        return PostVerdict("conflict", reason)
    if status >= 500 or status in (408, 425, 429):
        return PostVerdict("later", f"{sender}: {detail}", _read_delay(response))
    return PostVerdict("refused", detail)


def _read_delay(response: httpx2.Response) -> float:
    seconds = read_retry_after(response.headers.get("retry-after", ""), time.time())
    return min(seconds or 0.0, MAX_RETRY_AFTER_S)
