"""What comes from Mattermost: each post once, live or from the history, whatever breaks in between."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from mattermost_house import MattermostHouse, mattermost

from semel.channels.mattermost import directory, sockets
from semel.channels.mattermost.parse import KEY_PROP
from semel.gateway.ports import Denied, Kept, Missing, Offline
from semel.testing.mattermost import BOT


async def test_a_direct_message_is_heard_with_its_author(there: MattermostHouse) -> None:
    await there.online()
    id = there.double.write(there.direct, there.ann, "hello")
    (event,) = await there.hear(1)
    assert (event.kind, event.key, event.address, event.text) == ("message", id, there.direct, "hello")
    assert event.sender is not None and (event.sender.id, event.sender.name) == (there.ann, "ann")
    assert not event.group and abs(event.at - time.time()) < 60


@pytest.mark.parametrize(
    ("text", "is_mention", "read"),
    [
        ("@semel what is this?", True, "what is this?"),
        ("@Semel: hi", True, "hi"),
        ("ask @semel.", True, "ask @semel."),
        ("mail me@semel or @semelina", False, "mail me@semel or @semelina"),
        ("hello all", False, "hello all"),
    ],
)
async def test_a_mention_is_a_whole_name(there: MattermostHouse, text: str, is_mention: bool, read: str) -> None:
    await there.online()
    there.double.write(there.room, there.ann, text)
    (event,) = await there.hear(1)
    assert (event.mentioned, event.text, event.group, event.title) == (is_mention, read, True, "garden")


@pytest.mark.parametrize(
    ("policy", "addresses"),
    [
        ("start", ["{room}:thread-{root}", "{room}:thread-{root}", "{room}"]),
        ("own", ["{room}", "{room}:thread-{root}", "{room}"]),
        ("room", ["{room}", "{room}", "{room}"]),
    ],
)
async def test_threads_are_sessions_by_setting(tmp_path: Path, policy: str, addresses: list[str]) -> None:
    async with mattermost(tmp_path, threads=policy) as there:
        await there.online()
        root = there.double.write(there.room, there.ann, "@semel look")
        there.double.write(there.room, there.bob, "and this", root=root)
        there.double.write(there.room, there.bob, "by the way")
        events = await there.hear(3)
        assert [event.address for event in events] == [each.format(room=there.room, root=root) for each in addresses]
        assert [event.mentioned for event in events] == [True, True, False]


async def test_a_thread_that_began_with_a_mention_is_known_after_a_restart(there: MattermostHouse) -> None:
    await there.online()
    root = there.double.write(there.room, there.ann, "@semel look")
    await there.hear(1)
    await there.again()
    there.double.write(there.room, there.bob, "and this", root=root)
    assert (await there.hear(2))[1].mentioned


async def test_edits_deletions_and_reactions_are_heard(there: MattermostHouse) -> None:
    await there.online()
    id = there.double.write(there.room, there.ann, "first", root="")
    there.double.edit(id, "second")
    there.double.react(id, there.bob, "thumbsup")
    there.double.react(id, there.bob, "thumbsup", removed=True)
    there.double.remove(id)
    events = await there.hear(5)
    assert [(event.kind, event.of, event.text) for event in events[1:]] == [
        ("edit", id, "second"), ("reaction", id, "👍"), ("reaction", id, "👍"), ("delete", id, ""),
    ]  # fmt: skip
    assert events[3].removed and len({event.key for event in events}) == 5
    assert {event.address for event in events} == {there.room}


async def test_a_reaction_to_an_old_post_is_heard_in_its_thread(there: MattermostHouse) -> None:
    root = there.double.write(there.room, there.ann, "@semel look")
    ours = there.double.add_post(there.room, BOT, {"message": "Which?", "root_id": root})["id"]
    there.double.advance(10)
    await there.online()  # begins at the present
    robot = there.double.person("robot", is_bot=True)
    for path, how in ((f"/channels/{there.room}", "drop"), (f"/posts/{ours}", "502"), (f"/users/{robot}", "429")):
        there.double.fail(f"GET {path}", how)
    there.double.react(ours, robot, "two")
    (event,) = await there.hear(1)
    assert (event.address, event.of, event.text) == (f"{there.room}:thread-{root}", ours, "2️⃣")
    assert event.sender is not None and event.sender.bot, "nobody's word, so it answers nothing"


async def test_a_reaction_whose_post_cannot_be_looked_up_is_tried_again_and_then_kept_raw(
    there: MattermostHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "LOOKUP_DELAYS_S", (0.01, 0.01))
    root = there.double.write(there.room, there.ann, "@semel look")
    ours = there.double.add_post(there.room, BOT, {"message": "Which?", "root_id": root})["id"]
    there.double.advance(10)
    await there.online()
    there.double.fail("GET /posts/*", "500", times=3)
    there.double.react(ours, there.ann, "one")
    there.double.fail("GET /posts/*", "500", times=1)
    there.double.react(ours, there.ann, "two")
    lost, heard = await there.hear(2)
    assert lost.kind == "unreadable" and ours.encode() in lost.raw and "cannot be looked up" in lost.why
    assert (heard.address, heard.text) == (f"{there.room}:thread-{root}", "2️⃣")


async def test_what_nobody_wrote_and_what_the_bot_wrote_is_no_message(there: MattermostHouse) -> None:
    await there.online()
    there.double.write(there.room, there.ann, "ann joined", type="system_join_channel")
    receipt = await there.channel.send(there.op("ours", to=there.room, key="k-9"))
    there.double.write(there.room, there.ann, "mine", props={KEY_PROP: "k-9"})
    events = await there.hear(2)
    assert [(event.kind, event.key, event.of) for event in events[:1]] == [("echo", "k-9", receipt.id)]
    assert [event.text for event in events if event.kind == "message"] == ["mine"]


async def test_a_webhook_does_not_speak_for_who_made_it(there: MattermostHouse) -> None:
    await there.online()
    there.double.write(there.room, there.ann, "@semel /stop", props={"from_webhook": "true"})
    (event,) = await there.hear(1)
    assert event.sender is not None and event.sender.id != there.ann and event.sender.bot


async def test_files_are_fetched_of_people_who_are_known(there: MattermostHouse) -> None:
    await there.online()
    there.inbox.strangers.add(there.bob)
    for user in (there.ann, there.bob):
        file = there.double.give_file(user, there.room, "a.txt", "content")
        there.double.write(there.room, user, "see", file_ids=[file])
    mine, theirs = await there.hear(2)
    (kept,), (missing,) = mine.files, theirs.files
    assert isinstance(kept, Kept) and (kept.name, kept.size) == ("a.txt", 7)
    assert isinstance(missing, Missing) and len(there.double.asked("GET /files/")) == 1


async def test_what_was_missed_is_put_once_and_before_online(there: MattermostHouse) -> None:
    await there.online()
    first = there.double.write(there.direct, there.ann, "first")
    there.double.write(there.direct, there.ann, "gone")
    await there.hear(2)
    await there.stop()
    for n in range(230):
        there.double.write(there.direct, there.ann, f"missed {n}")
    there.double.edit(first, "first, edited")
    there.double.remove(there.double.shown(there.direct)[1]["id"])
    there.double.write(there.room, there.bob, "@semel and here")
    await there.again()
    events = there.inbox.events[2:]
    texts = [event.text for event in events if event.kind == "message"]
    assert texts == [*(f"missed {n}" for n in range(230)), "and here"]
    assert sorted(event.kind for event in events if event.kind != "message") == ["delete", "edit"]


async def test_changes_of_the_time_away_are_put_and_nothing_that_did_not_change(there: MattermostHouse) -> None:
    """Mattermost keeps each former text as a deleted post, and a reply changes the post that its thread began with."""
    old = there.double.write(there.room, there.ann, "old")
    there.double.edit(old, "old, edited before the bot was there")
    there.double.advance(120)
    await there.online()
    first = there.double.write(there.room, there.ann, "first")
    await there.hear(1)
    await there.stop()
    there.double.advance(120)
    for text in ("first, edited", "first, edited twice"):
        there.double.edit(first, text)
    there.double.write(there.room, there.bob, "a reply", root=old)
    await there.again()
    heard = [(event.kind, event.of, event.text) for event in there.inbox.events[1:]]
    assert sorted(heard, key=str) == [("edit", first, "first, edited twice"), ("message", None, "a reply")]


async def test_posts_of_one_millisecond_that_fill_more_than_a_page_are_put_once(there: MattermostHouse) -> None:
    await there.online()
    there.double.write(there.direct, there.ann, "first")
    await there.hear(1)
    await there.stop()
    at = there.double.now_ms()
    expected = [f"{n}" for n in range(250)]
    for text in expected:
        there.double.write(there.direct, there.ann, text, create_at=at, update_at=at)
    there.double.write(there.direct, there.ann, "last", create_at=at + 1, update_at=at + 1)
    await there.again()
    assert sorted(event.text for event in there.inbox.events[1:]) == sorted([*expected, "last"])


async def test_a_page_that_lost_its_place_is_not_taken_for_the_end(there: MattermostHouse) -> None:
    """Before a post that was deleted for good, the server finds nothing."""
    await there.online()
    await there.stop()
    for n in range(150):
        there.double.write(there.direct, there.ann, f"{n}", create_at=there.double.now_ms() + n)
    there.double.fail("GET /channels/.*/posts", "empty", skip=1)
    with pytest.raises(Offline, match="page"):
        await there.channel.run(there.inbox)
    await there.again()
    assert len(there.inbox.events) == 150


async def test_a_connection_that_the_server_no_longer_counts_as_logged_in_is_given_up(
    there: MattermostHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays open, and hears nothing more (the server's source, app/platform/web_conn.go, IsAuthenticated)."""
    monkeypatch.setattr(sockets, "LOGIN_CHECK_INTERVAL_S", 0.05)
    await there.online()
    there.double.forget_logins()
    there.double.write(there.direct, there.ann, "unheard")
    with pytest.raises(Offline, match="logged in"):
        await there.wait_for_failure()
    await there.online()
    assert [event.text for event in there.inbox.events] == ["unheard"]


@pytest.mark.parametrize("shows_archived", [True, False])
async def test_what_was_written_before_its_channel_was_archived_is_heard_if_the_server_shows_it(
    there: MattermostHouse, shows_archived: bool
) -> None:
    await there.online()
    await there.stop()
    there.double.shows_archived = shows_archived
    there.double.write(there.room, there.ann, "@semel last words")
    there.double.archive(there.room)
    there.double.write(there.direct, there.ann, "and here")
    await there.again()
    events = await there.hear(1 + shows_archived)
    assert {event.text for event in events} == {"and here"} | ({"last words"} if shows_archived else set())


async def test_a_token_that_is_revoked_while_nothing_is_said_is_reported(
    there: MattermostHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "LOGIN_CHECK_INTERVAL_S", 0.05)
    await there.online()
    there.double.token = "another0000000000000000000"
    with pytest.raises(Offline):
        await there.wait_for_failure()
    with pytest.raises(Denied, match="does not accept this token") as denied:
        await there.channel.run(there.inbox)
    assert denied.value.retry_after == 60.0, "the account may be switched on again"


async def test_a_first_run_begins_at_the_present(there: MattermostHouse) -> None:
    there.double.write(there.direct, there.ann, "old")
    there.double.advance(10)
    await there.online()
    there.double.write(there.direct, there.ann, "new")
    assert [event.text for event in await there.hear(1)] == ["new"]


async def test_a_lost_event_ends_the_connection_and_its_post_is_read_from_the_history(there: MattermostHouse) -> None:
    await there.online()
    there.double.lose_event()
    there.double.write(there.direct, there.ann, "after the gap")
    with pytest.raises(Offline, match="lost events"):
        await there.wait_for_failure()
    await there.online()
    assert [event.text for event in there.inbox.events] == ["after the gap"]


async def test_a_disk_that_is_full_loses_nothing(there: MattermostHouse) -> None:
    await there.online()
    there.inbox.fail = OSError("no space left")
    there.double.write(there.direct, there.ann, "hello")
    with pytest.raises(OSError):
        await there.wait_for_failure()
    await there.online()
    assert [event.text for event in there.inbox.events] == ["hello"]


async def test_another_accounts_token_neither_hears_nor_speaks(there: MattermostHouse) -> None:
    await there.online()
    await there.stop()
    there.inbox.at = json.dumps({**json.loads(str(there.inbox.at)), "bot": there.bob})
    there.channel = there.fresh()
    with pytest.raises(Denied, match="another account"):
        await there.channel.run(there.inbox)
    with pytest.raises(Exception, match="another account"):
        await there.channel.send(there.op("x"))
    assert there.double.people[BOT] and there.double.texts(there.direct) == []


async def test_what_cannot_be_read_is_kept_and_the_rest_goes_on(there: MattermostHouse) -> None:
    await there.online()
    there.double.write(there.direct, there.ann, "odd", create_at="yesterday")
    del there.double.rooms[there.direct].posts[next(iter(there.double.rooms[there.direct].posts))]
    there.double.write(there.direct, there.ann, "even")
    odd, even = await there.hear(2)
    assert odd.kind == "unreadable" and b"odd" in odd.raw and even.text == "even"


async def test_a_post_from_the_future_does_not_move_the_cursor_past_the_present(there: MattermostHouse) -> None:
    await there.online()
    there.double.write(there.direct, there.ann, "from tomorrow", create_at=there.double.now_ms() + 86_400_000)
    await there.hear(1)
    assert json.loads(str(there.inbox.at))["at"] < there.double.now_ms() + 60_000


async def test_a_thread_that_is_no_id_is_kept_raw(there: MattermostHouse) -> None:
    await there.online()
    there.double.write(there.direct, there.ann, "odd", root="../x")
    (event,) = await there.hear(1)
    assert event.kind == "unreadable"
