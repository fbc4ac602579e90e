"""What the answer to a call means, and what a failure is called (Law 7).

| answer | meaning |
|---|---|
| 200 with the message's id | sent: Meta accepted it; whether it arrives, status reports say |
| 429; 4, 80007 (calls), 130429 (throughput), 131056 (one person), 131057 (maintenance) | `NotSent`, for a while |
| errors 0, 3, 10, 190, 200-299, 131005, and 100 with subcode 33 | `NotSent`: a person corrects the token |
| error 131047: the person wrote last more than 24 hours ago | `WindowClosed`: a template may be accepted |
| errors 1, 2, 131000, 131016, 133004, 135000; 5xx, 408, an answer that cannot be read | `Unknown` |
| 4xx whose body is truncated | `NotSent` |
| other errors, redirects, other 4xx | `Rejected` |

Source: https://developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes.
"""

from __future__ import annotations

from semel.channels.whatsapp.transport import GraphReply
from semel.gateway.ports import NotSent, Op, Receipt, Rejected, Unknown
from semel.text.json_types import objects_in, text_at

TOKEN_REFUSED = "Meta does not accept this token for this number: correct token, or phone_number_id"
TOKEN_RETRY_DELAY_S = 60.0
"""Seconds after which a refused token is tried again."""
WINDOW_CLOSED = 131047
NOT_NOW_S = {4: 60.0, 80007: 60.0, 130429: 5.0, 131056: 15.0, 131057: 60.0}
"""Errors by which Meta takes nothing now, and the seconds to wait if it names none."""
TOKEN_ERRORS = frozenset({0, 3, 10, 190, *range(200, 300), 131005})
UNCLEAR_ERRORS = frozenset({1, 2, 131000, 131016, 133004, 135000})
"""Errors that leave open whether the call took effect."""
_NO_SUCH_OBJECT = (100, 33)
HINTS = {
    368: "Meta has restricted the account: see Account quality in the Business Manager",
    130472: "Meta takes part of the marketing messages out of delivery, as an experiment",
    130497: "the account may not write to people in that country",
    131021: "the address is the business's own number",
    131026: "the person has no WhatsApp, an old one, or has not accepted its terms",
    131030: "a test number writes only to the recipients that are listed under API Setup",
    131031: "Meta has locked the account: see Account quality in the Business Manager",
    131042: "Meta wants a payment method: see Billing in the Business Manager",
    131047: "the person wrote last more than 24 hours ago: until they write again, Meta takes only templates "
    "(the setting `template`)",
    131048: "too many messages of this number were blocked or flagged as spam",
    131049: "Meta chose not to deliver it, to keep people from too many messages",
    131050: "the person takes no marketing messages of this business",
    131051: "WhatsApp has no messages of this kind",
    131053: "WhatsApp takes no file of this kind, or it is too large",
    132000: "the template in the setting `template` should have one variable, in its body",
    132001: "there is no template of this name in this language: see Message templates in the Business Manager",
    132015: "Meta has paused the template, because people flagged it",
    132016: "Meta has disabled the template",
    133010: "the number is not registered: register it under API Setup",
}
"""Errors -> what they mean to a person. The words of Meta's own stand before it."""


class WindowClosed(Exception):
    """Meta takes only templates for this person now; nothing was sent."""


def check_reply(reply: GraphReply) -> None:
    """Return if a call succeeded. Raises NotSent, Rejected, Unknown or WindowClosed, by the table of this module."""
    if reply.ok and not reply.has_error:
        return
    code = reply.code
    if reply.status == 429:
        raise NotSent("Meta says: not now (too many calls)", reply.retry_after or NOT_NOW_S.get(code))
    if not reply.is_graph:
        raise _classify_foreign(reply)
    if not reply.has_error or code in UNCLEAR_ERRORS:
        raise Unknown(f"Meta: {reply.describe()}")
    if code in NOT_NOW_S:
        raise NotSent(f"Meta says: not now ({describe(code, reply.describe())})", reply.retry_after or NOT_NOW_S[code])
    if is_token_error(reply):
        raise NotSent(f"{TOKEN_REFUSED} ({reply.describe()})", TOKEN_RETRY_DELAY_S)
    if reply.status >= 500 or reply.status == 408:
        raise Unknown(f"Meta: {reply.describe()}")
    if code == WINDOW_CLOSED:
        raise WindowClosed(describe(code, reply.describe()))
    raise Rejected(f"WhatsApp: {describe(code, reply.describe())}")


def _classify_foreign(reply: GraphReply) -> Exception:
    """Return the error for an answer that is not one of the Graph API."""
    is_refusal = 300 <= reply.status < 500 and reply.status != 408
    if is_refusal and not reply.is_complete:
        return NotSent(f"HTTP {reply.status}, and the answer broke off")
    if is_refusal:
        return Rejected(f"HTTP {reply.status}, not from Meta: check the setting `api`")
    return Unknown(reply.describe())


def is_token_error(reply: GraphReply) -> bool:
    """Return whether Meta refuses the token, or does not let it use the number."""
    return reply.has_error and (reply.code in TOKEN_ERRORS or (reply.code, reply.subcode) == _NO_SUCH_OBJECT)


def casts_doubt(refusal: NotSent | Rejected) -> bool:
    """Return whether a part was not sent because Meta could not be reached or refuses the token, as it then would be
    with any other part."""
    has_no_answer = isinstance(refusal, NotSent) and refusal.retry_after is None
    return has_no_answer or str(refusal).startswith(TOKEN_REFUSED)


def receipt_of(op: Op, reply: GraphReply) -> Receipt:
    """Return the receipt for the answer to a part. Raises NotSent, Rejected, Unknown or WindowClosed."""
    check_reply(reply)
    id = next((text_at(message, "id") for message in objects_in(reply.data.get("messages"))), None)
    if not id:
        raise Unknown("Meta's answer names no message")
    return Receipt(op.target or op.key) if op.kind == "react" else Receipt(id)


def describe(code: int, words: str) -> str:
    """Return an error in Meta's words, with what it means to a person if that is known."""
    words = words if str(code) in words else f"{words} ({code})"
    return f"{words}; {HINTS[code]}" if code in HINTS else words
