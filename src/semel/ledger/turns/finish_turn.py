"""End a turn (Laws 2, 5, 7, 12).

`finish` applies the turn's last batch, delivers the closing text, records the evidence of the turn's end and ends the
turn, all in one transaction. `schedule_retry` ends an attempt that is tried again later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from semel.law import turn as law
from semel.ledger.delivery import claims, cutting, held_notice
from semel.ledger.delivery.cutting import Leg, cut_claim, is_local
from semel.ledger.storage.rows import ClaimRow, EntryRow, SessionRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import entries
from semel.ledger.turns import close_output, end_evidence, limits, turns
from semel.ledger.turns.end_evidence import Evidence
from semel.ledger.turns.ending import Ending, read_ending, show_end
from semel.ledger.turns.show import OpBatch, deliver_closing
from semel.ledger.turns.turn_ops import Notice, Op, Slots
from semel.ledger.turns.utterances import find_last_text, list_utterances
from semel.ledger.turns.withdrawals import free_session
from semel.text.sentences import join_sentences
from semel.text.wellformed import shorten_to_line

EMPTY_TURN_NOTICE = "The agent ended its turn without a word."
EMPTY_TURN_KIND = "turn.empty"
NOTHING_MORE_NOTICE = "The agent ended its turn without another word."
NOTHING_MORE_KIND = "turn.nothing_more"
MAX_REPORT_CHARS = 300  # of the agent's report about itself that this notice repeats


@dataclass(frozen=True)
class End:
    """The way in which a turn ends.

    - `event`: the event that ends it (`semel.law.turn`): "answered", "errored" or "cancelled".
    - `stop`: the agent's stop reason, or "error".
    - `error`: why the turn failed; None if the agent gave no error.
    - `last_prompted_seq`: the prompt included the entries up to this seq; 0 if the next prompt must include them again.
    - `closing`: the slot of the closing text; None if no text waits for the end of the turn.
    - `legs`: the parts in which the closing text is sent; () if none is to be sent.
    - `notices`: notices about the end, which are recorded and sent after everything that was said.
    - `held_notice`: the notice that a text was not delivered, which comes before `notices`; None if there is none.
    - `keeps_held_notice`: add `held_notice` even if the agent said something after it was asked to correct the text.
    - `stopped`: the request that stopped the turn; None if nobody stopped it.
    - `remembered`: claims of lost attempts whose texts the agent's history has in the same words.
    - `answer`: the claim of the text with which the agent's history ends the turn; None if that is not known.
    - `usage`: the usage that the agent reported for the attempt; None if it was not prompted.
    """

    event: law.Event
    stop: str
    error: str | None = None
    last_prompted_seq: int = 0
    closing: int | None = None
    legs: tuple[Leg, ...] = ()
    notices: tuple[Notice, ...] = ()
    held_notice: Notice | None = None  # the notice about a text that stays held back
    keeps_held_notice: bool = False  # held back again after a correction, or without a correction
    stopped: turns.StopRequest | None = None
    remembered: frozenset[int] = frozenset()
    answer: int | None = None
    usage: limits.UsageReport | None = None


def finish(
    tx: Tx, fence: turns.TurnFence, caller: claims.Caller, ops: Sequence[Op], slots: Slots, end: End
) -> tuple[Slots, bool]:
    """Apply the turn's last batch and end the turn, in one transaction. Raises Fenced.

    Return the updated slots, and whether another turn follows because a wake is pending (Law 2).
    """
    row = turns.check_fence(tx, fence)
    new_slots = OpBatch(tx, caller, slots).apply_all(ops)
    leaves = deliver_closing(tx, new_slots.claims, end.closing, end.legs)
    recovered_claim = None if leaves else _deliver_lost_text(tx, row, caller, end)
    ending = read_ending(tx, fence.turn)
    turn = ending.turn
    if turn.has_live_entries:
        close_output.close_entries(tx, fence.session, turn)
    departed_claim = cutting.deliver_last_block(tx, row, fence.turn)
    evidence = _add_end_notices(tx, row, ending, end, new_slots.attached)
    close_output.withdraw_reserved(tx, row, caller.root)
    if turn.has_live_items:
        entries.close_items(tx, fence.session)
    state = law.step("running", end.event)
    usage = limits.measure_usage(tx, row, end.usage)
    tx.run(
        "turn_end", id=fence.turn, state=state, stop=end.stop, error=end.error, at=tx.now, evidence=evidence.kind,
        row=evidence.row, tokens=usage.tokens, cost=usage.cost,
    )  # fmt: skip
    show_end(tx, fence.session, ending.asked)
    free_session(tx, row, fence.turn)
    if end.last_prompted_seq:
        tx.run("entries_prompted", session=fence.session, upto=end.last_prompted_seq)
        _tell_late_delivery(tx, fence.session, departed_claim if recovered_claim is None else recovered_claim)
    if end.usage is not None:
        limits.count_usage(tx, row, turn, ending.askers, usage, end.usage.policy)
    return new_slots, row.wake_at is not None


def _add_end_notices(tx: Tx, session: SessionRow, ending: Ending, end: End, attached: int | None) -> Evidence:
    """Add the notices of a turn's end. Return the evidence that the person can see the end (Law 12).

    `attached`: the seq of the turn's last notice of kind `show.ATTACHED_KIND`; None if there is none.
    """
    turn, held, notices = ending.turn, end.held_notice, end.notices
    if held is not None and (end.keeps_held_notice or not tx.exists("turn_said_since_corrected", turn=turn.id)):
        notices = (held, *notices)
    if end.stopped is not None:
        return turns.add_stop_notice(tx, session.id, turn, end.stopped.notice_text, end.stopped.seq)
    evidence = end_evidence.find_evidence(tx, session, ending)
    if evidence is None and attached is not None and attached > ending.last_asked:
        evidence = Evidence("notice", attached)
    notice_seq = None
    for notice in notices:
        # A notice whose kind begins with "turn." is sent to the home. The others repeat the agent's own words: they are
        # sent there only if those words did not arrive.
        kind = notice.kind if evidence or notice.kind.startswith("turn.") else f"turn.{notice.kind}"
        seq = turns.add_notice(tx, session.id, notice.text, turn=turn.id, kind=kind, tell=notice.tell)
        notice_seq = seq if kind.startswith("turn.") else notice_seq
    if notice_seq is not None:
        return Evidence("notice", notice_seq)
    if evidence := evidence or end_evidence.find_quiet(tx, turn):
        return evidence
    return Evidence("notice", _add_silence_notice(tx, session, ending))


def _add_silence_notice(tx: Tx, session: SessionRow, ending: Ending) -> int:
    """Add the notice for a turn of which its person saw nothing. Return the seq of its entry.

    If the agent said something that its platform rejected, the notice says that, unless a notice said so already.
    """
    turn, fallen = ending.turn, end_evidence.find_fallen(tx, session, ending)
    if fallen is not None and session.home is not None:
        caller = claims.Caller(session.id, session.key, turn.id, turn.root)
        if (seq := held_notice.add_rejected_notice(tx, caller, session.home, fallen)) is not None:
            return seq
        return turns.add_notice(tx, session.id, NOTHING_MORE_NOTICE, turn=turn.id, kind=NOTHING_MORE_KIND, tell=False)
    text = _empty_turn_text(tx, turn.id)
    return turns.add_notice(tx, session.id, text, turn=turn.id, kind=EMPTY_TURN_KIND, tell=False)


def _empty_turn_text(tx: Tx, turn: int) -> str:
    """Return the notice for a turn that ended without a word, with what the agent last reported about itself.

    Such a report, as of a model that refused the request, is often the reason. Chats do not get it in any other way.
    """
    report = tx.value(str, "turn_last_report", turn=turn)
    last = f"Its last report: {shorten_to_line(report, MAX_REPORT_CHARS)}" if report else ""
    return join_sentences(EMPTY_TURN_NOTICE, last) if last else EMPTY_TURN_NOTICE


def find_empty_turn_notice(tx: Tx, turn: TurnRow) -> str | None:
    """Return the notice that a turn ended without a word, with the agent's last report; None if it did not end so."""
    if turn.evidence != "notice":
        return None
    notice = tx.one(EntryRow, "entry_get", session=turn.session, seq=turn.evidence_row)
    is_empty = notice is not None and entries.load(notice.more).get("kind") == EMPTY_TURN_KIND
    return notice.text if notice is not None and is_empty else None


def schedule_retry(
    tx: Tx, fence: turns.TurnFence, caller: claims.Caller, ops: Sequence[Op], slots: Slots, error: str, ms: int,
    usage: limits.UsageReport | None = None,
) -> Slots:  # fmt: skip
    """Apply the last batch of a failed attempt, and let the turn be tried again in `ms` milliseconds.

    Until then, no agent works on the turn. `error`: why the attempt failed. `usage`: the usage that the agent reported
    for it. Return the updated slots. Raises Fenced.
    """
    row = turns.check_fence(tx, fence)
    new_slots = OpBatch(tx, caller, slots).apply_all(ops)
    ending = read_ending(tx, fence.turn)
    if ending.turn.has_live_entries:
        close_output.close_entries(tx, fence.session, ending.turn)
    if ending.turn.has_live_items:
        entries.close_items(tx, fence.session)
    used = limits.measure_usage(tx, row, usage)
    tx.run("turn_put_off", id=fence.turn, error=error, at=tx.now + ms, tokens=used.tokens, cost=used.cost)
    tx.run("session_begin_again", id=fence.session)
    entries.touch_session(tx, fence.session)
    if usage is not None:
        limits.count_usage(tx, row, ending.turn, ending.askers, used, usage.policy)
    return new_slots


def _deliver_lost_text(tx: Tx, session: SessionRow, caller: claims.Caller, end: End) -> int | None:
    """Send the last text of a lost attempt as the answer, if this attempt said nothing of its own at home.

    Echoes do not count as said by this attempt. The text is not sent if it was sent before, for example by a tool. If
    the text was cut off but the agent remembers it word for word, it was complete, and its entry loses the mark
    `partial`. Return the claim that is sent now, or None.
    """
    lost_before = caller.root is not None and caller.turn != caller.root
    if not lost_before or tx.number("says_at_home", turn=caller.turn, home=session.home):
        return None
    if end.answer is not None:
        return _deliver_answer(tx, session, caller, end.answer)
    last = find_last_text(list_utterances(tx, int(caller.root or 0), session.home))
    if last is None:
        return None
    if end.event == "answered" and last.cut and last.claim in end.remembered and last.seq is not None:
        entries.set_entry(tx, session.id, last.seq, partial=False, tell=False)
    leaves = last.fate in ("unsent", "seen")
    return last.claim if leaves and cutting.deliver_block(tx, session, last.claim) is not None else None


def _deliver_answer(tx: Tx, session: SessionRow, caller: claims.Caller, claim: int) -> int | None:
    """Send the text of `claim` as the turn's answer: the agent's history ends with this text.

    Return the claim that is sent now; None if the text was sent before. If a later text has already been sent, this
    text can no longer be sent in order, so it is said again as a new claim.
    """
    row = tx.one(ClaimRow, "claim_get", id=claim)
    original = tx.one(ClaimRow, "claim_get", id=row.echo_of) if row is not None and row.outcome == "echo" else row
    if original is None or original.outcome != "said":
        return None
    entries.mark_whole(tx, original.id)
    if is_local(session.home) or tx.exists("part_first", claim=original.id):
        return None
    departed_claim = cutting.deliver_block(tx, session, claim)
    if departed_claim is None:
        legs = cut_claim(tx, session, original)
        departed_claim = claims.say(
            tx, caller, claims.ClaimRequest("recovery", original.text, session.home, legs=legs)
        ).claim_id
    return departed_claim


def _tell_late_delivery(tx: Tx, session: int, claim: int | None) -> None:
    """Let the next prompt tell the agent that `claim`, a cut-off text, has been sent after all.

    The last prompt said that it had not been sent. Do nothing if the claim's text is complete.
    """
    claim_row = tx.one(ClaimRow, "claim_get", id=claim) if claim is not None else None
    entry = tx.one(EntryRow, "entry_get", session=session, seq=claim_row.seq) if claim_row is not None else None
    if entry is not None and entry.partial:
        entries.set_entry(tx, session, entry.seq, tell=True)
