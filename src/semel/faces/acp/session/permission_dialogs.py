"""Permission requests of a session as dialogs of an editor: ask, pass on the answer, close what is over.

A request is asked on every face, and the first answer counts; the gateway decides which one that is. So an answer that
comes late is passed on all the same, changes nothing, and is told as late.

Editors close a dialog in different ways. Some close it on `$/cancel_request`: there it belongs to the tool call that it
is about. Others close it, if at all, when the tool call that it belongs to has ended. The real call may run for
minutes, so there the dialog gets a tool call of its own. An id is never used again: an editor may answer a dialog much
later, although it was told to close it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from semel.faces.acp.updates.row_writer import RowWriter, describe_permission
from semel.text.json_types import Json, text_at
from semel.text.wellformed import one_line

if TYPE_CHECKING:
    from semel.faces.acp.connection.editor_port import Editor

SendAnswer = Callable[[int, "str | None", int], None]
OWN_CALL = "semel-ask-"  # begins the id of a dialog's own tool call
MAX_TITLE_CHARS = 100  # of a request, in a remark about it
OPTION_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")  # ACP PermissionOptionKind


class PermissionDialogs:
    """The dialogs of one session.

    `send_answer`: called with item, option and the rev of the item that was shown. `remark`: called with the name and
    the text of a remark for the editor.
    """

    def __init__(
        self, session: str, editor: Editor, writer: RowWriter, send_answer: SendAnswer,
        remark: Callable[[str, str], None],
    ) -> None:  # fmt: skip
        self._session = session
        self._editor = editor
        self._writer = writer
        self._send_answer = send_answer
        self._remark = remark
        self._requests: dict[int, str] = {}  # the editor's open dialogs: the id of our request, by item
        self._closed: dict[int, str] = {}  # dialogs that were closed, and that the editor has not answered yet
        self._late: set[int] = set()  # items whose answer from here came too late, which the editor was not told yet
        self._calls: dict[int, str] = {}  # the tool calls of dialogs that are not told as ended yet, by item

    def __repr__(self) -> str:
        return f"<PermissionDialogs {len(self._requests)} open>"

    def ask_if_open(self, item: Json) -> None:
        """Ask if the request is open and was not asked in this editor."""
        if item["state"] == "open" and item["id"] not in self._calls:
            self._ask(item)

    def close_ended(self, items: Mapping[int, Json], shows_calls: bool) -> None:
        """Close the dialogs of requests that are open no longer, whoever answered them.

        `shows_calls`: whether the editor shows text and tool calls now. If not, a later call tells it that the dialog's
        tool call has ended, and what became of the answers that were given in it.
        """
        for item_id in list(self._calls):
            item = items.get(item_id)
            if item is None or item["state"] != "open":
                self._close_dialog(item_id)
                if shows_calls:
                    self._end_call(item_id, item or {})
        for item_id in list(self._late):
            item = items.get(item_id) or {}
            if item.get("state") != "open":
                self._late.remove(item_id)
                self._remark(f"answer-{item_id}", _describe_late(item))

    def note_outcome(self, item_id: int, option: str | None, outcome: str) -> None:
        """Note that an option was chosen here. If it came too late, the next `close_ended` says who was first.

        `outcome`: see `AsyncClient.answer`.
        """
        if option is not None and outcome != "answered":
            self._late.add(item_id)

    def tell(self, item_id: int, text: str) -> None:
        """Say something about an answer that was given in the editor."""
        self._remark(f"answer-{item_id}", text)

    def close(self) -> None:
        """Close all dialogs, because the editor opens the session again."""
        for item_id in list(self._requests):
            self._close_dialog(item_id)
        for request in self._closed.values():
            self._editor.forget(request)
        self._send_answer, self._remark = _ignore_answer, _ignore_remark  # they refer to whoever has these dialogs

    def _ask(self, item: Json) -> None:
        described = self._describe_call(item)
        options = [
            {
                "optionId": option["optionId"],
                "name": option.get("name") or option["optionId"],
                "kind": option["kind"] if option.get("kind") in OPTION_KINDS else "allow_once",
            }
            for option in item["options"]
        ]
        params = {"sessionId": self._session, "toolCall": described, "options": options}
        self._requests[item["id"]] = self._editor.ask(
            "session/request_permission", params, lambda answer: self._handle_answer(item, answer)
        )

    def _describe_call(self, item: Json) -> Json:
        """Return the tool call of a dialog (ACP `ToolCallUpdate`). A call of its own is written first."""
        closes_on_cancel = self._editor.profile.dialog_closes == "on_cancel"
        known = self._writer.find_call_id(item.get("call")) if closes_on_cancel else None
        call = self._calls[item["id"]] = known or f"{OWN_CALL}{item['id']}"
        described = describe_permission(item, call)
        if known is not None:
            return {key: value for key, value in described.items() if key != "status"}
        self._editor.write([self._writer.format_update("tool_call", **described)])
        return described

    def _handle_answer(self, item: Json, answer: Json) -> None:
        """Pass on an answer to the item that was shown: one of its options, or a dismissal, which means no.

        Any other answer allows nothing, and the request stays open for the other faces (Law 13). A choice in a dialog
        that was closed is passed on, too: the gateway says that it is late.
        """
        item_id = item["id"]
        self._requests.pop(item_id, None)
        was_closed = self._closed.pop(item_id, None) is not None
        outcome, option = (text_at(answer, "result", "outcome", name) for name in ("outcome", "optionId"))
        if outcome == "selected" and option in [offered["optionId"] for offered in item["options"]]:
            self._send_answer(item_id, option, item["rev"])
        elif was_closed:
            return
        elif outcome == "cancelled":
            self._send_answer(item_id, None, item["rev"])
        else:
            text = (
                f"The editor's answer to “{_name_request(item)}” chooses none of the options, so it allows nothing. "
                "The request stays open: answer it elsewhere, such as on the page, or cancel the prompt."
            )
            self._remark(f"unread-{item_id}", text)

    def _close_dialog(self, item_id: int) -> None:
        if (request := self._requests.pop(item_id, None)) is not None:
            self._closed[item_id] = request
            self._editor.cancel_request(request)

    def _end_call(self, item_id: int, item: Json) -> None:
        call = self._calls.pop(item_id)
        fields: Json = {"title": f"{item.get('title') or 'permission'} ({_describe_end(item)})"}
        if call.startswith(OWN_CALL):
            fields["status"] = "completed" if item.get("state") == "answered" else "failed"
        elif item.get("state") != "answered" or item.get("by") == self._editor.name:
            return  # the call itself shows what becomes of it
        self._editor.write([self._writer.format_update("tool_call_update", toolCallId=call, **fields)])


def _ignore_answer(item: int, option: str | None, seen: int) -> None:
    pass


def _ignore_remark(name: str, text: str) -> None:
    pass


def _name_request(item: Json) -> str:
    return one_line(str(item.get("title") or "permission"), MAX_TITLE_CHARS)


def _describe_late(item: Json) -> str:
    """Say that an answer came too late, who was first, and with which answer."""
    ends = {"answered": f"it was {_describe_end(item)} before", "expired": "it had expired"}
    end = ends.get(str(item.get("state")), "it was withdrawn before")
    return f"Your answer to “{_name_request(item)}” came too late: {end}. What you chose changed nothing."


def _find_kind(item: Json) -> str:
    chosen = (option for option in item.get("options", ()) if option["optionId"] == item.get("answer"))
    return str(next((option.get("kind") for option in chosen), None) or "")


def _describe_end(item: Json) -> str:
    if item.get("state") != "answered":
        return str(item.get("state") or "withdrawn")
    word = {"allow": "allowed", "reject": "rejected"}.get(_find_kind(item).partition("_")[0], "answered")
    return f"{word} by {item['by']}" if item.get("by") else word
