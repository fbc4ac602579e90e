"""An attempt that its agent itself told again counts once, whether or not anybody had seen any of it (Laws 4, 8)."""

from __future__ import annotations

import pytest
from transaction_desk import Desk, block, caller, fence, leg

from proof.machines.engines import rows
from semel.acp_stream import Fold
from semel.acp_stream.profiles import profile_for
from semel.acp_stream.redelivery import LEAST_GLUED_CHARS
from semel.gateway.outbound.destinations import Destinations
from semel.gateway.ports import Safety
from semel.gateway.settings import ChannelSettings
from semel.gateway.turns.block_claims import BlockClaims
from semel.gateway.turns.stream_view import StreamView
from semel.ledger.admin import explain
from semel.ledger.turns import finish_turn, turn_ops, turns
from semel.testing import FakeChannel

ATTEMPT = (
    "The lamp is on, and so are the heaters " + ", ".join(map(str, range(LEAST_GLUED_CHARS // 3))) + ", and the wor"
)
ANSWER = ATTEMPT + "ld is warm."


@pytest.mark.parametrize("whole", [True, False], ids=["nothing is previewed", "it is previewed"])
def test_an_attempt_that_broke_off_and_came_again_is_marked_and_leaves_only_with_its_answer(
    desk: Desk, whole: bool
) -> None:
    desk.hear("Is it warm?", "chat")
    begun = desk.begin("chat")
    chat = FakeChannel("chat", Safety.AT_MOST_ONCE)
    places = Destinations({}, {"chat": ChannelSettings(name="chat", kind="fake", narration="all")}, {"chat": chat})
    fold, viewing = Fold(profile_for("opencode")), StreamView()
    viewing.begin_turn(BlockClaims("chat", "chat:1", places, (), judge_at_end=whole), begun.turn)
    for text in (ATTEMPT[:100], ATTEMPT[100:], ANSWER[:200], ANSWER[200:]):
        chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "m1", "content": {"type": "text", "text": text}}
        viewing.take(fold.update(chunk))
    viewing.take(fold.end("end_turn"))

    desk.finish(begun, *viewing.take_batch())

    lost, answer = [one for one in desk.entries("chat") if one["role"] == "agent"]
    assert [(one["text"], bool(one.get("superseded"))) for one in (lost, answer)] == [(ATTEMPT, True), (ANSWER, False)]
    assert answer["supersedes"] == [lost["seq"]]
    newer, older = (one["seq"] for one in (answer, lost))
    story = str(desk.look(explain.tell_story, f"chat#{older}"))
    assert f"said, entry {older}; superseded by entry {newer} (c{answer['claim']}), which has its text in full" in story
    assert f"said, entry {newer}, which supersedes entry {older}" in str(
        desk.look(explain.tell_story, f"c{answer['claim']}")
    )
    sent = desk.look(lambda tx: rows(tx, "SELECT op ->> 'text' FROM part"))
    assert "".join(text for (text,) in sent) == ANSWER


@pytest.mark.parametrize("key", ["chat", "s"])
def test_a_text_whose_retry_was_lost_is_told_once_by_the_next_attempt(desk: Desk, key: str) -> None:
    """Its chat has it, so it stands again there; on a page it was hidden, so it is told anew."""
    home, legs = ("chat:1", (leg("It is warm."),)) if key == "chat" else ("web:s", ())
    says = block(1, "It is warm.", home, legs=legs)
    desk.hear("Is it warm?", key)
    lost = desk.begin(key)
    desk.show(lost, turn_ops.Preview(1, "It is warm."), says, turn_ops.Supersede(1, by=2))
    desk.do(turns.release_lease, fence(lost))
    begun = desk.begin(key)
    desk.do(
        finish_turn.finish,
        fence(begun),
        caller(begun, "restart"),
        [says],
        turn_ops.Slots(),
        finish_turn.End("answered", "end_turn"),
    )

    said = [one["text"] for one in desk.entries(key) if one["role"] == "agent" and not one.get("superseded")]
    assert said == ["It is warm."]
    parts = desk.look(lambda tx: rows(tx, "SELECT count(*) FROM part")[0])
    assert parts == (len(legs),)
    desk.balanced()
