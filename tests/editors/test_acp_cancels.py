"""What an editor's cancel stops: its own prompt, and no other person's turn."""

from __future__ import annotations

from pathlib import Path

from editor_help import line_of
from gateway_editor import Desk, GatewayEditor, until
from system_house import script


def test_a_cancelled_prompt_is_answered_as_cancelled(desk: Desk) -> None:
    editor = desk.editor()
    session = editor.new()
    prompt = editor.begin(script("Begun.", {"hang": True}))
    editor.sees("Begun.")
    editor.send(method="session/cancel", params={"sessionId": session})
    assert editor.answer_to(prompt)["result"] == {"stopReason": "cancelled"}


def begin_phones_turn(desk: Desk, editor: GatewayEditor, gate: Path) -> str:
    """Open a session in which another person's turn runs until the file `gate` is there. Return its id."""
    session = editor.new()
    desk.house.say(session, script("Phone's.", {"wait": str(gate)}, "Phone's end."))
    editor.sees("Phone's.")
    return session


def test_a_cancel_does_not_stop_the_turn_of_another_person(desk: Desk, tmp_path: Path) -> None:
    editor = desk.editor()
    gate = tmp_path / "go on"
    session = begin_phones_turn(desk, editor, gate)
    prompt = editor.begin("say: mine")
    until(lambda: desk.house.session(session)["waiting"], "the prompt waits")
    editor.send(method="session/cancel", params={"sessionId": session})
    gate.touch()
    editor.sees("Phone's.Phone's end.")
    assert editor.answer_to(prompt)["result"]["stopReason"] in ("cancelled", "end_turn")


def test_a_cancel_takes_out_its_waiting_prompt_alone_and_its_neighbours_are_one_turn(
    desk: Desk, tmp_path: Path
) -> None:
    editor = desk.editor()
    gate = tmp_path / "go on"
    session = begin_phones_turn(desk, editor, gate)
    desk.house.say(session, "say: before")
    wrong = editor.begin("say: wrong")
    until(lambda: desk.house.session(session)["waiting"] == 2, "both wait")
    editor.send(method="session/cancel", params={"sessionId": session})
    corrected = editor.begin("say: corrected")
    until(lambda: desk.house.session(session)["waiting"] == 3, "the corrected prompt waits, too")
    assert editor.answer_to(wrong)["result"]["stopReason"] == "cancelled", "at once: the other turn still runs"
    gate.touch()
    assert editor.answer_to(corrected)["result"]["stopReason"] == "end_turn"
    entries = desk.house.get(f"/v1/sessions/{session}/history")["entries"]
    ended = [entry["ended"] for entry in entries if entry["role"] == "user"]
    assert [one["state"] for one in ended] == ["done", "done", "cancelled", "done"]
    assert ended[1]["turn"] == ended[3]["turn"] > ended[2]["turn"] > ended[0]["turn"]
    assert not desk.house.texts(session, "notice"), "nobody is told that something of theirs was stopped"


def test_a_cancelled_request_is_the_one_prompt_that_ends(desk: Desk, tmp_path: Path) -> None:
    """`session/cancel` names a session, `$/cancel_request` a prompt. Toad keeps several open."""
    editor = desk.editor()
    gate = tmp_path / "go on"
    session = begin_phones_turn(desk, editor, gate)
    cancelled, kept = editor.begin("say: cancelled"), editor.begin("say: kept")
    until(lambda: desk.house.session(session)["waiting"] == 2, "both wait")
    listing = editor.request("session/list")
    for request in (cancelled, listing, "100"):
        editor.send(method="$/cancel_request", params={"requestId": int(request)})
    assert editor.answer_to(cancelled)["result"] == {"stopReason": "cancelled"}
    assert "result" in editor.answer_to(listing), "a request that is no prompt is answered as usual"
    assert kept not in editor.answers, "it waits for the phone's turn"
    gate.touch()
    assert editor.answer_to(kept)["result"] == {"stopReason": "end_turn"}
    assert editor.texts()[-1] == "kept" and "cancelled" not in editor.texts()


def test_a_cancel_right_behind_its_prompt_withdraws_that_prompt_alone(desk: Desk, tmp_path: Path) -> None:
    """Both lines come at once, while another person's turn runs. If they are read at once, the prompt is never sent."""
    editor = desk.editor()
    gate = tmp_path / "go on"
    session = begin_phones_turn(desk, editor, gate)
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": script("Mine.", {"hang": True})}]}
    editor.methods['"both"'] = "session/prompt"
    lines = [
        {"jsonrpc": "2.0", "id": "both", "method": "session/prompt", "params": prompt},
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}},
    ]
    editor.process.stdin.write(b"".join(map(line_of, lines)))
    editor.process.stdin.flush()
    assert editor.answer_to('"both"')["result"] == {"stopReason": "cancelled"}
    gate.touch()
    editor.sees("Phone's.Phone's end.")
    assert editor.prompt("say: next") == "end_turn"
    was_sent = len(desk.house.texts(session, "user")) == 3  # the operating system may split the two
    assert "Mine." not in editor.texts()
    assert any("before it was sent" in text for text in editor.texts()) != was_sent
