"""Signal: a line of signal-cli's output -> what is told -> rows, and the position behind it.

Whatever a line holds, the channel does not stop at it: it is a row, an answer, or known to be nothing; what cannot be
read is kept as it came. A cursor is read as it was written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proof.fuzz.house import House
from proof.fuzz.source import Source, given
from semel.channels.signal.address import EditedMessages, OwnAccount, parse_message_id
from semel.channels.signal.downloads import SignalFetcher
from semel.channels.signal.journal import Journal, JournalLine, JournalPosition
from semel.channels.signal.process import SignalCli
from semel.channels.signal.read_journal import JournalReader, SignalCursor
from semel.channels.signal.settings import SignalSettings

ACCOUNT, ACCOUNT_ID = "+4915100000000", "00000000-5e3e-4000-8000-000000000000"
ANN = "00000000-5e3e-4000-8000-000000000001"
OWN = OwnAccount(ACCOUNT, ACCOUNT_ID)
HEAD: dict[str, Any] = {
    "sourceUuid": ANN, "sourceNumber": "+491520000001", "sourceName": "Ann", "timestamp": 1_790_000_000_000,
    "serverReceivedTimestamp": 1_790_000_000_500,
}  # fmt: skip
MESSAGE: dict[str, Any] = {"timestamp": 1_790_000_000_000, "message": "hello \ufffc `x`"}
GROUP = {"groupId": "A" * 43 + "=", "groupName": "Garden", "type": "DELIVER"}
MENTION = {"start": 6, "length": 1, "uuid": ACCOUNT_ID, "number": ACCOUNT}


def _received(**content: Any) -> Any:
    return {"jsonrpc": "2.0", "method": "receive", "params": {"envelope": {**HEAD, **content}, "account": ACCOUNT}}


TEMPLATES: list[Any] = [
    _received(dataMessage={**MESSAGE, "groupInfo": GROUP, "mentions": [MENTION],
        "textStyles": [{"start": 8, "length": 3, "style": "MONOSPACE"}],
        "quote": {"id": 5, "authorUuid": ACCOUNT_ID, "text": "before"}}),
    _received(dataMessage={**MESSAGE, "attachments": [{"id": "a/../b.png", "contentType": "image/png", "size": 9},
        {"id": None, "contentType": "text/x-signal-plain"}]}),
    _received(editMessage={"targetSentTimestamp": 8, "dataMessage": MESSAGE}),
    _received(dataMessage={**MESSAGE, "message": None, "reaction": {"emoji": "👍", "targetAuthorUuid": ACCOUNT_ID,
        "targetSentTimestamp": 8, "isRemove": False}}),
    _received(dataMessage={**MESSAGE, "message": None, "remoteDelete": {"timestamp": 5}}),
    _received(dataMessage={**MESSAGE, "message": None, "groupInfo": GROUP,
        "adminDelete": {"targetAuthorUuid": ANN, "targetSentTimestamp": 5}}),
    _received(dataMessage={**MESSAGE, "message": None, "contacts": [{"name": {"display": "Cy"},
        "phone": [{"value": "+49"}]}], "pollCreate": {"question": "?", "options": ["a"]}, "sticker": {"packId": "x"}}),
    _received(sourceUuid=ACCOUNT_ID, sourceNumber=ACCOUNT, syncMessage={"sentMessage": {**MESSAGE,
        "destinationUuid": ACCOUNT_ID}}),
    {"jsonrpc": "2.0", "method": "receive", "params": {"subscription": 0, "result": {"envelope": HEAD,
        "exception": {"message": "no", "type": "ProtocolInvalidMessageException"}}}},
    {"jsonrpc": "2.0", "id": "part post k1 0a1b", "result": {"timestamp": 5, "results": [{"type": "SUCCESS"}]}},
    {"jsonrpc": "2.0", "id": "part post k1 0a1b", "error": {"code": -5, "message": "no", "data": {"response": {}}}},
]  # fmt: skip
_house = House()
_settings = SignalSettings(ACCOUNT, fetch=False)
_nowhere = Path("/nonexistent")


def one(data: bytes) -> None:
    source = Source(data)
    line = JournalLine(given(source, TEMPLATES).replace(b"\n", b" ").strip(), JournalPosition(1, 500))
    edits = EditedMessages()
    edits.note_edit(parse_message_id("self/5"), 8)
    cursor = SignalCursor(JournalPosition(1, 0), 1_700_000_000_000)
    fetcher = SignalFetcher(_nowhere, False, 0)
    inbox = _house.fresh()
    cli = SignalCli("s", _settings)
    reader = JournalReader(Journal(_nowhere), cli, fetcher, edits, OWN, inbox, cursor, cursor.position)
    drafts = reader._parse_line(line)
    cursor.position, cursor.edits = line.after, dict(edits.originals)
    _house.run(reader.save(_house.run(fetcher.complete(drafts, inbox))))
    for what in _house.check():
        assert what.kind != "unreadable" or (what.raw and what.why), "what cannot be read is not kept"
    assert SignalCursor.load(cursor.dump()) == cursor, "the cursor is not read as it was written"
    again = EditedMessages()
    again.restore_edits(cursor.edits)
    assert again.originals == edits.originals, "an edit is not remembered as it was learned"


SEEDS = [
    *(bytes([0, n, 0]) for n in range(len(TEMPLATES))),
    *(bytes([0, n, 3, k, 0, 1, k + 4, k + 9, 2, k + 17, 5, k]) for n in range(len(TEMPLATES)) for k in (3, 11, 24)),
    b'\x04{"jsonrpc":"2.0","method":"receive","params":{"envelope":{"sourceUuid":"x","dataMessage":{"timestamp":1e300}}}}',
    b'\x04{"jsonrpc":"2.0","method":"rec',
]
