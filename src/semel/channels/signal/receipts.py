"""Classify signal-cli's answer to a part: a receipt, `NotSent`, `Rejected` or `Unknown` (Law 7).

signal-cli reports what became of a message for each recipient (JsonSendMessageResult.java), and answers with an error
if none of them got it (SendMessageResultUtils.java, SignalJsonRpcCommandHandler.java).

| answer | meaning |
|---|---|
| a result; at least one recipient got it | sent; who did not get it is logged |
| a recipient's network failure, and nobody got it | `Unknown`: the connection may have broken after the message left |
| rate limit (-5 or a recipient's) | `NotSent`, for `retryAfterSeconds` |
| not registered, unknown identity (-4) | `Rejected`, with what to do |
| other user errors (-1), malformed requests (-32700 to -32600, but for -32603) | `Rejected` |
| IO errors (-3), internal errors (-32603), anything else | `Unknown` |
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NoReturn

from semel.channels.signal.address import SELF
from semel.channels.signal.process import SignalReply
from semel.gateway.ports import NotSent, Op, Receipt, Rejected, Unknown
from semel.text.json_types import Json, object_at, objects_in, value_at

USER_ERROR, UNTRUSTED_KEY, RATE_LIMIT = -1, -4, -5
INTERNAL_ERROR = -32603
REQUEST_ERRORS = range(-32700, -32599)
RATE_LIMIT_DELAY_S = 60.0
"""Seconds to wait after a rate limit that names no time."""
PREKEY_DELAY_S = 60.0
_BAD_FILE = ("AttachmentInvalid", "NoSuchFile", "FileNotFound")

_log = logging.getLogger("semel.signal")


def receipt_of(op: Op, reply: SignalReply, account: str) -> Receipt:
    """Return the receipt for an answer to a part. Raises NotSent, Rejected or Unknown."""
    if reply.code is None:
        results = _list_results(reply.result)
        if not was_delivered(reply):
            _raise_failure(results, account)
        _log_failures(results, op)
        return _make_receipt(op, reply)
    results = _list_results(value_at(reply.data, "response"))
    if reply.code == RATE_LIMIT:
        _raise_rate_limit(results, account)
    if results and reply.code in (USER_ERROR, UNTRUSTED_KEY):
        _raise_failure(results, account)
    if reply.code == INTERNAL_ERROR and any(word in reply.error_text for word in _BAD_FILE):
        raise Rejected(f"signal-cli cannot read the file: {reply.error_text}")
    if reply.code in (USER_ERROR, UNTRUSTED_KEY) or (reply.code in REQUEST_ERRORS and reply.code != INTERNAL_ERROR):
        raise Rejected(f"signal-cli: {reply.error_text}")
    raise Unknown(f"signal-cli: {reply.error_text}")


def _list_results(answer: object) -> Sequence[Json]:
    return objects_in(value_at(answer, "results"))


def _make_receipt(op: Op, reply: SignalReply) -> Receipt:
    if op.kind in ("edit", "react", "delete"):
        return Receipt(op.target or op.key)
    if (time := read_time(reply)) is None:
        raise Unknown("signal-cli's answer names no message")
    return Receipt(f"{SELF}/{time}")


def read_time(reply: SignalReply) -> int | None:
    """Return the time by which Signal knows what was sent, in ms; None if the answer has none."""
    time = value_at(reply.result, "timestamp")
    return time if isinstance(time, int) and not isinstance(time, bool) and 0 < time < 10**16 else None


def was_delivered(reply: SignalReply) -> bool:
    """Whether an answer says that at least one recipient got the message, or names no recipients."""
    results = _list_results(reply.result)
    return reply.code is None and (not results or any(result.get("type") == "SUCCESS" for result in results))


def _raise_failure(results: Sequence[Json], account: str) -> NoReturn:
    """Raise the error for a message that nobody got."""
    kinds = {str(result.get("type")) for result in results}
    if not kinds <= {"RATE_LIMIT_FAILURE", "UNREGISTERED_FAILURE", "IDENTITY_FAILURE", "INVALID_PRE_KEY_FAILURE"}:
        raise Unknown("signal-cli lost the connection to Signal while it sent")
    if "RATE_LIMIT_FAILURE" in kinds:
        _raise_rate_limit(results, account)
    if "INVALID_PRE_KEY_FAILURE" in kinds:
        raise NotSent("Signal has no valid keys of the recipient now", PREKEY_DELAY_S)
    if "IDENTITY_FAILURE" in kinds:
        names = " ".join(_name_recipient(result) for result in results if result.get("type") == "IDENTITY_FAILURE")
        raise Rejected(
            f"the safety number of {names} has changed: compare it, then trust the new one with "
            f"`signal-cli -a {account} trust -v SAFETY_NUMBER RECIPIENT`"
        )
    raise Rejected(f"{' '.join(map(_name_recipient, results))}: not registered on Signal")


def _raise_rate_limit(results: Sequence[Json], account: str) -> NoReturn:
    waits = [result["retryAfterSeconds"] for result in results if isinstance(result.get("retryAfterSeconds"), int)]
    tokens = [str(result["token"]) for result in results if result.get("token")]
    hint = (
        ": Signal wants a captcha; solve it at https://signalcaptchas.org/challenge/generate.html, then run "
        f"`signal-cli -a {account} submitRateLimitChallenge --challenge {tokens[0]} --captcha TOKEN`"
        if tokens
        else ""
    )
    wait = float(max(waits)) if waits else RATE_LIMIT_DELAY_S
    raise NotSent(f"Signal says: too many messages{hint}", wait)


def _log_failures(results: Sequence[Json], op: Op) -> None:
    """Log who of a group did not get a message that others got; a repeat would show it to these twice."""
    for result in results:
        if (kind := str(result.get("type"))) != "SUCCESS":
            level = logging.INFO if kind == "UNREGISTERED_FAILURE" else logging.WARNING
            _log.log(level, "%s did not get a message to %s: %s", _name_recipient(result), op.address, kind)


def _name_recipient(result: Json) -> str:
    address = object_at(result, "recipientAddress")
    return str(address.get("number") or address.get("uuid") or "a recipient")
