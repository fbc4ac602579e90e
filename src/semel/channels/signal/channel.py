"""A Signal account as a channel: its capabilities, and the methods of the channel port.

signal-cli chooses the time by which Signal knows a message, folds no repeats and shows nothing of what it has sent. So
the safety class is at-most-once. Each attempt to send is one call of signal-cli.
"""

from __future__ import annotations

from semel.channels.signal.address import EditedMessages, parse_address, parse_message_id
from semel.channels.signal.process import START_WAIT_S, SignalCli, make_request_id
from semel.channels.signal.read_journal import make_call_id
from semel.channels.signal.receipts import read_time, receipt_of
from semel.channels.signal.receive import SignalReceiver
from semel.channels.signal.send import MAX_FILE_BYTES, MAX_TEXT_BYTES, make_call, name_file
from semel.channels.signal.settings import SignalSettings
from semel.channels.uploads import limit_upload_time
from semel.gateway.ports import REPEAT_PREFIX, Caps, Inbox, NotSent, Op, Receipt, Safety

TYPING_TIMEOUT_S = 10.0


class SignalChannel:
    """One account. `run` receives, `send` makes one attempt."""

    def __init__(self, name: str, settings: SignalSettings) -> None:
        self.name = name
        self.settings = settings
        self.caps = Caps(
            safety=Safety.AT_MOST_ONCE,
            max_len=MAX_TEXT_BYTES - len(REPEAT_PREFIX),
            unit="byte",
            pace=settings.pace,
            timeout=START_WAIT_S + settings.timeout + limit_upload_time(MAX_FILE_BYTES) + 5,
            edits=True,
            deletes=True,
            reactions=True,
            typing=True,
            button_edits=True,
            button_reactions=True,
            one_reaction=True,
            files=True,
            file_limit=MAX_FILE_BYTES,
            empty_files=False,
            dialect="signal",
        )
        self._edits = EditedMessages()
        self._cli = SignalCli(name, settings)
        self._receiver = SignalReceiver(name, settings, self._cli, self._edits)

    def __repr__(self) -> str:
        return f"<SignalChannel {self.name} of {self.settings.account}>"

    async def run(self, inbox: Inbox) -> None:
        """See `semel.gateway.ports.Channel.run`."""
        await self._receiver.run(inbox)

    async def send(self, op: Op) -> Receipt:
        """See `semel.gateway.ports.Channel.send`."""
        with name_file(op, self.settings.journal_folder) as file:
            call = make_call(op, self._receiver.own, self._edits, file)
            patience = limit_upload_time(file.stat().st_size) if file is not None else 0.0
            reply = await self._cli.call_method(
                call.method, call.params, make_call_id(op), self.settings.timeout + patience
            )
        receipt = receipt_of(op, reply, self.settings.account)
        if op.kind == "edit" and (edited_at := read_time(reply)) is not None:
            self._edits.note_edit(parse_message_id(receipt.id), edited_at)
        return receipt

    async def find(self, op: Op, since: float) -> Receipt | None:
        """Not supported: signal-cli keeps nothing of what it has sent."""
        raise NotImplementedError("signal-cli does not tell what it has sent")

    async def typing(self, address: str) -> None:
        """Show the typing indicator for some seconds. May raise; the indicator is best effort."""
        place = parse_address(address)
        if not self._receiver.own.is_self(place.person):
            reply = await self._cli.call_method("sendTyping", place.params, make_request_id("typing"), TYPING_TIMEOUT_S)
            if reply.code is not None:
                raise NotSent(f"signal-cli: {reply.error_text}")
