"""Whether Meta accepts the account: the number, the token and its permission, and the app's secret."""

from __future__ import annotations

import logging
import time

from semel.channels.whatsapp.receipts import NOT_NOW_S, TOKEN_REFUSED, UNCLEAR_ERRORS, is_token_error
from semel.channels.whatsapp.transport import GraphApi, GraphReply
from semel.gateway.ports import Denied, NotSent, Offline, Unknown
from semel.text.json_types import list_at, text_at, value_at

PERMISSION = "whatsapp_business_messaging"
WARN_BEFORE_S = 7 * 86400.0
"""Seconds before its end from which a token's expiry is logged."""
_log = logging.getLogger("semel.whatsapp")


async def check_number(api: GraphApi) -> str:
    """Return the business phone number for display. Raises Denied or Offline."""
    try:
        reply = await api.read_number()
    except (NotSent, Unknown) as error:
        raise Offline(str(error)) from None
    if not reply.ok:
        raise _classify_refusal(reply)
    number = text_at(reply.data, "display_phone_number")
    if number is None:
        raise Offline("Meta's answer names no phone number: check the settings `api` and `phone_number_id`")
    return number


async def check_token(api: GraphApi, name: str, now: float | None = None) -> None:
    """Check the token's permission, and log if it ends soon. Meta may tell nothing. Raises Denied.

    `name`: the channel's. `now`: seconds since the epoch.
    """
    try:
        reply = await api.read_token()
    except (NotSent, Unknown):
        return
    scopes, end = list_at(reply.data, "data", "scopes"), value_at(reply.data, "data", "expires_at")
    if scopes and PERMISSION not in scopes:
        raise Denied(
            f"the token lacks the permission {PERMISSION}: make one for the system user that has it (semel docs "
            "whatsapp)",
            ["token"],
        )
    left = end - (time.time() if now is None else now) if isinstance(end, int) and end > 0 else WARN_BEFORE_S
    if left < WARN_BEFORE_S:
        _log.warning("channel %s: its token ends in %.0f hours; that of a system user need not", name, left / 3600)


def _classify_refusal(reply: GraphReply) -> Denied | Offline:
    """Return the error that an answer to the look at the number means, which is no success."""
    if reply.status == 429 or reply.code in NOT_NOW_S:
        return Offline("Meta says: not now (rate limit)", reply.retry_after)
    if reply.code in UNCLEAR_ERRORS:
        return Offline(f"Meta: {reply.describe()}", reply.retry_after)
    if reply.is_graph and "appsecret_proof" in reply.describe():
        return Denied(
            "app_secret is not that of the app for which the token was made: correct one of them",
            ["token", "app_secret"],
        )
    if is_token_error(reply):
        return Denied(f"{TOKEN_REFUSED} ({reply.describe()})", ["phone_number_id", "token"])
    if not reply.is_graph and 300 <= reply.status < 500:
        return Offline(f"what answers is not Meta (HTTP {reply.status}): check the setting `api`")
    if reply.is_graph and reply.status == 400:
        return Denied(f"Meta refuses the number: {reply.describe()}", ["phone_number_id"])
    return Offline(f"Meta: {reply.describe()}", reply.retry_after)
