"""What the answer to a call means (Law 7).

| answer | meaning |
|---|---|
| 2xx with the post, or with `status: OK` where that is documented | sent |
| 429 | `NotSent`, for Retry-After or X-Ratelimit-Reset |
| 401 in Mattermost's words | `NotSent`: a person corrects the token |
| 3xx | `NotSent`; redirects are not followed |
| delete: 404 in Mattermost's words | sent: the post is gone (older servers say 403; `MattermostSender` looks) |
| other 4xx in Mattermost's words | `Rejected` |
| 4xx in other words | `Unknown`: from a proxy, not from Mattermost |
| 5xx, 408, 2xx with something else | `Unknown` |

A 500 may also mean that an earlier attempt with the same `pending_post_id` is still being saved.
"""

from __future__ import annotations

from semel.channels.mattermost.address import is_id
from semel.channels.mattermost.transport import MattermostReply
from semel.gateway.ports import NotSent, Op, Receipt, Rejected, Unknown
from semel.text.json_types import value_at

TOKEN_REFUSED = (
    "Mattermost does not accept this token: it was revoked, or the account was switched off; make a new one under "
    "Integrations, Bot Accounts"
)
TOKEN_RETRY_DELAY_S = 60.0
"""Seconds after which a refused token is tried again."""
_PERMISSIONS = {
    "post": "create_post", "file": "upload_file and create_post", "edit": "edit_post", "delete": "delete_post",
    "react": "add_reaction",
}  # fmt: skip
_HINTS = {
    "api.post.create_post.can_not_post_to_deleted.error": "the channel is archived",
    "api.post.update_post.permissions_time_limit.app_error": "the server allows no edits of messages that old",
    "api.post.create_post.root_id.app_error": "the thread's first message is gone",
    "api.file.upload_file.too_large_detailed.app_error": "the file is larger than the server takes",
    "api.file.attachments.disabled.app_error": "the server takes no files",
}


class TokenRefused(NotSent):
    """Mattermost does not accept the token; nothing was sent."""


def check_answer(reply: MattermostReply, op: Op | None = None) -> MattermostReply:
    """Return an answer of success. Raises NotSent, Rejected or Unknown by the table at the top of this module.

    `op`: the part that the call sends; None if the call only prepares for it or looks for it.
    """
    if reply.ok:
        return reply
    if reply.status == 429:
        raise NotSent("Mattermost says: too many requests", reply.retry_after)
    if 300 <= reply.status < 400:
        raise NotSent(f"HTTP {reply.status}, a redirect: check the setting `url`", TOKEN_RETRY_DELAY_S)
    if not reply.is_error or reply.status >= 500 or reply.status == 408:
        raise Unknown(f"Mattermost: {reply.describe()}")
    if reply.status == 401:
        raise TokenRefused(TOKEN_REFUSED, TOKEN_RETRY_DELAY_S)
    hint = _HINTS.get(reply.error_id, "")
    if reply.status == 403 and not hint:
        permission = _PERMISSIONS[op.kind] if op is not None else "read_channel"
        hint = f"add the bot to the team and the channel; there it needs the permission {permission}"
        if op is not None and op.target:
            hint = f"it was deleted, or {hint}"
    raise Rejected(f"Mattermost: {reply.describe()}{f' ({hint})' if hint else ''}")


def receipt_of(op: Op, reply: MattermostReply) -> Receipt:
    """Return the receipt for the answer to a part. Raises NotSent, Rejected or Unknown."""
    if op.kind == "delete" and reply.status == 404 and reply.is_error:
        return Receipt(op.target or op.key)
    check_answer(reply, op)
    if op.kind == "delete" and value_at(reply.data, "status") == "OK":
        return Receipt(op.target or op.key)
    if op.kind == "react" and value_at(reply.data, "post_id") == op.target:
        return Receipt(op.target or op.key)
    id = value_at(reply.data, "id")
    if op.kind in ("post", "file") and is_id(id):
        return Receipt(str(id))
    if op.kind == "edit" and id == op.target:
        return Receipt(str(id))
    raise Unknown("Mattermost's answer names no message")
