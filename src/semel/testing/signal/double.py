"""The double itself, in memory: the account, its people and groups, what they do, and signal-cli's methods."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from semel.text.json_types import Json

ACCOUNT = "+4915100000000"
ACCOUNT_ID = "00000000-5e3e-4000-8000-000000000000"
VERSION = "0.13.18"
STYLE = re.compile(r"\d+:\d+:(.+)")
STYLES = frozenset({"BOLD", "ITALIC", "SPOILER", "STRIKETHROUGH", "MONOSPACE"})
EMPTY = "Sending empty message is not allowed, either a message, attachment or sticker must be given."
FailureKind = Literal["RATE_LIMIT_FAILURE", "UNREGISTERED_FAILURE", "IDENTITY_FAILURE", "NETWORK_FAILURE"]
FaultKind = Literal["die", "hang", "slow", "error", "failure"]


class RpcError(Exception):
    """An error that answers a request. `data`: of the error."""

    def __init__(self, code: int, text: str, data: Json | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.data = data


@dataclass
class SignalFault:
    """A fault of the next requests of a method.

    die, hang: signal-cli dies, or never answers; `after`: after it has done what was asked. slow: it answers `seconds`
    later. error: it answers with `error` and does nothing. failure: nobody gets the message, for the reason `failure`,
    with `token` and `retry_after` of a rate limit.
    """

    method: str
    how: FaultKind
    after: bool = False
    times: int = 1
    seconds: float = 0.5
    error: tuple[int, str] = (-1, "Failed to send message")
    failure: FailureKind = "RATE_LIMIT_FAILURE"
    retry_after: int | None = None
    token: str | None = None


@dataclass
class SentMessage:
    """A message of the account as people see it. `time`: in ms. `to`: the address."""

    time: int
    to: str
    text: str
    params: Json
    files: dict[str, bytes] = field(default_factory=dict)
    edits: list[int] = field(default_factory=list)
    deleted: bool = False
    reactions: list[str] = field(default_factory=list)


class SignalDouble:
    """One account. The package's docstring lists what is modelled. `now`: returns seconds since the epoch."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self.now = now
        self.registered = True
        self.version = VERSION
        self.start_error: tuple[int, str] | None = None  # the exit code and the words of every start from now on
        self.people: dict[str, Json] = {}  # by id
        self.groups: dict[str, Json] = {}  # by id
        self.sent: list[SentMessage] = []
        self.typing: list[str] = []
        self.requests: list[Json] = []
        self.starts: list[list[str]] = []  # the arguments of each start of the program
        self.faults: list[SignalFault] = []
        self.failing: dict[str, FailureKind] = {}  # the id of a person -> why nothing reaches them
        self.queue: dict[int, Json] = {}  # what is to be handed over, by number
        self.told: list[Json] = []  # all of it, ever
        self.more = asyncio.Event()
        self._numbers = itertools.count(1)
        self._last_time = 0

    def __repr__(self) -> str:
        return f"<SignalDouble {len(self.sent)} sent, {len(self.queue)} to be handed over>"

    # ------------------------------------------------------------ people and places

    def person(self, name: str, number: str | None = None) -> str:
        """Add a person. Returns the id of their account."""
        n = len(self.people) + 1
        id = str(uuid.UUID(int=0x5E3E << 80 | 0x4 << 76 | 0x8 << 60 | n))
        self.people[id] = {"name": name, "number": number or f"+491520000{n:04}"}
        return id

    def group(self, name: str, *members: str) -> str:
        """Add a group with the account and these people. Returns its address."""
        id = f"{'A' * 40}{len(self.groups):03}="
        self.groups[id] = {"name": name, "members": list(members)}
        return f"group:{id}"

    # ------------------------------------------------------------ what people do

    def write(self, person: str, text: str | None, group: str = "", **more: Any) -> int:
        """Let a person write, in a group by its address. Returns the message's time. `more`: fields of dataMessage."""
        message = self._make_message(text, group, **more)
        self._tell(person, {"dataMessage": message})
        return int(message["timestamp"])

    def edit(self, person: str, target: int, text: str, group: str = "") -> int:
        """Let a person edit a message. Returns the time of the edit."""
        message = self._make_message(text, group)
        self._tell(person, {"editMessage": {"targetSentTimestamp": target, "dataMessage": message}})
        return int(message["timestamp"])

    def remove(self, person: str, target: int, group: str = "") -> int:
        """Let a person delete a message of theirs. Returns the time of the deletion."""
        return self.write(person, None, group, remoteDelete={"timestamp": target})

    def react(self, person: str, author: str, target: int, emoji: str, group: str = "", removed: bool = False) -> int:
        """Let a person react to a message, or take it back. `author`: the id of its author."""
        reaction = {
            "emoji": emoji, "targetAuthor": author, "targetAuthorNumber": self._number(author),
            "targetAuthorUuid": author, "targetSentTimestamp": target, "isRemove": removed,
        }  # fmt: skip
        return self.write(person, None, group, reaction=reaction)

    def write_elsewhere(self, text: str, to: str = ACCOUNT_ID, group: str = "", **more: Any) -> int:
        """Let the account's owner write on another device. `to`: a person's id; by default the "Note to Self"."""
        message = self._make_message(text, group, **more)
        to_person = None if group else to
        sent = {"destination": to_person, "destinationNumber": self._number(to_person), "destinationUuid": to_person}
        self._tell(ACCOUNT_ID, {"syncMessage": {"sentMessage": {**sent, **message}}}, device=1)
        return int(message["timestamp"])

    def tell(self, person: str, **content: Any) -> None:
        """Hand over anything else of a person, such as `typingMessage`."""
        self._tell(person, content)

    def tell_fault(self, person: str, message: str, kind: str) -> None:
        """Hand over that a message could not be decrypted."""
        self._tell(person, {}, exception={"message": message, "type": kind})

    def mention(self, person: str, start: int) -> Json:
        """Return a mention of a person or of the account, for `mentions`, at the character U+FFFC at `start`."""
        number = self._number(person)
        return {"name": number, "number": number, "uuid": person, "start": start, "length": 1}

    def _make_message(self, text: str | None, group: str, **more: Any) -> Json:
        message: Json = {
            "timestamp": self.new_time(),
            "message": text,
            "expiresInSeconds": 0,
            "viewOnce": False,
            **more,
        }
        if group:
            id = group.removeprefix("group:")
            name = self.groups[id]["name"]
            message["groupInfo"] = {"groupId": id, "groupName": name, "revision": 1, "type": "DELIVER"}
        return message

    def _tell(self, person: str, content: Json, device: int = 1, exception: Json | None = None) -> None:
        now = int(self.now() * 1000)
        name = "Me" if person == ACCOUNT_ID else self.people[person]["name"]
        inner = content.get("dataMessage") or content.get("editMessage", {}).get("dataMessage") or {}
        envelope = {
            "source": self._number(person), "sourceNumber": self._number(person), "sourceUuid": person,
            "sourceName": name, "sourceDevice": device, "timestamp": inner.get("timestamp", now),
            "serverReceivedTimestamp": now, "serverDeliveredTimestamp": now, **content,
        }  # fmt: skip
        params = {"envelope": envelope, "account": ACCOUNT, **({"exception": exception} if exception else {})}
        notification = {"jsonrpc": "2.0", "method": "receive", "params": params}
        self.told.append(notification)
        self.queue[next(self._numbers)] = notification
        self.more.set()

    def _number(self, id: str | None) -> str | None:
        if id is None:
            return None
        return ACCOUNT if id == ACCOUNT_ID else str(self.people[id]["number"])

    # ------------------------------------------------------------ what the tester sees and does

    def shown(self, address: str) -> list[SentMessage]:
        """Return the account's messages that people see at an address, in order."""
        return [message for message in self.sent if message.to == address and not message.deleted]

    def texts(self, address: str) -> list[str]:
        """Return the texts of the account's messages that people see at an address, in order."""
        return [message.text for message in self.shown(address)]

    def fail(self, method: str, how: FaultKind, **fields: Any) -> None:
        """Add a `SignalFault`, which has the same fields. Earlier faults strike first."""
        self.faults.append(SignalFault(method, how, **fields))

    # ------------------------------------------------------------ what the server calls

    def new_time(self) -> int:
        """Return a time in ms that no other message has."""
        self._last_time = max(int(self.now() * 1000), self._last_time + 1)
        return self._last_time

    def refuse_start(self, arguments: list[str]) -> tuple[int, str] | None:
        """Return the exit code and the words with which a start fails; None if it does not."""
        if self.start_error is not None:
            return self.start_error
        account = arguments[arguments.index("-a") + 1] if "-a" in arguments else ""
        if account not in (ACCOUNT, ACCOUNT_ID) or not self.registered:
            return 1, f"User {account} is not registered."
        return None

    def forget(self, number: int) -> None:
        """Forget a message that was handed over."""
        self.queue.pop(number, None)

    def take_fault(self, line: bytes) -> SignalFault | None:
        """Return the fault that strikes this request, or None."""
        try:
            method = json.loads(line)["method"]
        except (ValueError, TypeError, KeyError):
            return None
        for fault in self.faults:
            if fault.method in (method, "*") and fault.times > 0:
                fault.times -= 1
                return fault
        return None

    def answer(self, line: bytes, fault: SignalFault | None = None) -> Json | None:
        """Do what a request asks. Returns the answer; None for a request without an id, also if it fails."""
        id: Any = None
        try:
            request = _parse_line(line)
            id = request.get("id")
            _check_request(request)
            try:
                result = self._run(request, fault)
            except RpcError:
                if id is None:
                    return None
                raise
        except RpcError as error:
            answer = {"code": error.code, "message": str(error), "data": error.data}
            return {"jsonrpc": "2.0", "error": answer, "id": id}
        return {"jsonrpc": "2.0", "result": result, "id": id} if id is not None else None

    def _run(self, request: Json, fault: SignalFault | None) -> Json:
        self.requests.append(request)
        if fault is not None and fault.how == "error":
            raise RpcError(*fault.error)
        params = request.get("params") or {}
        failure = fault if fault is not None and fault.how == "failure" else None
        match request["method"]:
            case "version":
                return {"version": self.version}
            case "send":
                return self._send(params, failure)
            case "sendReaction":
                return self._react(params, failure)
            case "remoteDelete":
                return self._delete(params, failure)
            case "sendTyping":
                self.typing += self._find_places(params)
                return {"timestamp": self.new_time(), "results": []}
        raise RpcError(-32601, "Method not implemented")

    def _send(self, params: Json, fault: SignalFault | None) -> Json:
        places = self._find_places(params)
        text, attachments = params.get("message") or "", _as_list(params.get("attachment"))
        if not text and not attachments:
            raise RpcError(-1, EMPTY)
        for style in _as_list(params.get("textStyle")):
            if (match := STYLE.fullmatch(style)) is None:
                raise RpcError(-1, f"Invalid textStyle syntax ({style}) expected 'start:length:STYLE'")
            if match[1] not in STYLES:
                raise RpcError(-1, f"Invalid style: {match[1]}")
        files = {Path(name).name: _read_attachment(name) for name in attachments}
        time, results = self.new_time(), self._list_results(places, fault)
        if any(result["type"] == "SUCCESS" for result in results):
            if (edited := params.get("editTimestamp")) is not None:
                for message in self.sent:
                    if message.to in places and edited in (message.time, *message.edits):
                        message.text, message.params = text, params
                        message.edits.append(time)
            else:
                self.sent += [SentMessage(time, place, text, params, files) for place in places]
        return _check_results(time, results)

    def _react(self, params: Json, fault: SignalFault | None) -> Json:
        places = self._find_places(params)
        if not params.get("emoji") or not params.get("targetAuthor") or params.get("targetTimestamp") is None:
            raise RpcError(-32600, "emoji, targetAuthor and targetTimestamp are required")
        results = self._list_results(places, fault)
        for message in self.sent:
            if params["targetTimestamp"] in (message.time, *message.edits):
                message.reactions.append(params["emoji"])
        return _check_results(self.new_time(), results)

    def _delete(self, params: Json, fault: SignalFault | None) -> Json:
        places, results = self._find_places(params), self._list_results(self._find_places(params), fault)
        for message in self.sent:
            if message.to in places and params.get("targetTimestamp") in (message.time, *message.edits):
                message.deleted = True
        return _check_results(self.new_time(), results)

    def _find_places(self, params: Json) -> list[str]:
        """Return the addresses that a request names: ids of people, and groups. Raises RpcError."""
        places = [ACCOUNT_ID] if params.get("noteToSelf") else []
        for name in _as_list(params.get("recipient")):
            if not re.fullmatch(r"\+[0-9]{5,}|[0-9a-f-]{36}", name):
                raise RpcError(-1, f"Invalid phone number '{name}': The string supplied did not seem to be a number")
            places.append(next((id for id, known in self.people.items() if name in (id, known["number"])), name))
        for id in _as_list(params.get("groupId")):
            if id not in self.groups:
                raise RpcError(-1, f"Group not found: {id}")
            places.append(f"group:{id}")
        if not places:
            raise RpcError(-1, "No recipients given")
        return places

    def _list_results(self, places: list[str], fault: SignalFault | None) -> list[Json]:
        """Return what became of a message for each recipient."""
        results = []
        for place in places:
            group = place.removeprefix("group:") if place.startswith("group:") else None
            for person in self.groups[group]["members"] if group else [place]:
                kind = fault.failure if fault is not None else self.failing.get(person)
                if kind is None and person != ACCOUNT_ID and person not in self.people:
                    kind = "UNREGISTERED_FAILURE"
                number = self._number(person) if person in self.people or person == ACCOUNT_ID else None
                result: Json = {"recipientAddress": {"uuid": person, "number": number}, "type": kind or "SUCCESS"}
                if group:
                    result["groupId"] = group
                if fault is not None and fault.token is not None:
                    result["token"] = fault.token
                if fault is not None and fault.retry_after is not None:
                    result["retryAfterSeconds"] = fault.retry_after
                results.append(result)
        return results


def _parse_line(line: bytes) -> Json:
    """Return the request in a line. Raises RpcError."""
    if not line.strip():
        raise RpcError(-32700, "Empty input line")
    try:
        request = json.loads(line)
    except ValueError as error:
        raise RpcError(-32700, str(error)) from None
    if not isinstance(request, dict):
        kind = {str: "STRING", bool: "BOOLEAN", type(None): "NULL", list: "ARRAY"}.get(type(request), "NUMBER")
        raise RpcError(-32600, f"unexpected type: {kind}")
    return request


def _check_request(request: Json) -> None:
    """Raise RpcError unless it is a request of JSON-RPC 2.0."""
    if request.get("jsonrpc") != "2.0":
        raise RpcError(-32600, "only jsonrpc version 2.0 is supported")
    if request.get("method") is None:
        raise RpcError(-32600, "method field must be set")


def _check_results(time: int, results: list[Json]) -> Json:
    """Return the result of a call that sends. Raises RpcError if nobody got it."""
    response = {"timestamp": time, "results": results}
    kinds = {result["type"] for result in results}
    if "SUCCESS" in kinds:
        return response
    if kinds == {"IDENTITY_FAILURE"}:
        raise RpcError(-4, "Failed to send message due to untrusted identities", {"response": response})
    if kinds == {"RATE_LIMIT_FAILURE"}:
        raise RpcError(-5, "Failed to send message due to rate limiting", {"response": response})
    raise RpcError(-1, "Failed to send message", {"response": response})


def _as_list(value: Any) -> list[str]:
    """Return a parameter that may be one value or a list of them."""
    return [] if value is None else [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _read_attachment(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError:
        raise RpcError(-32603, f"Failed to send message: {name}: File not found (AttachmentInvalidException)") from None
