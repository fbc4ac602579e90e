"""What goes to Mattermost: one request shows it, each answer means what is documented, and a lost one is looked up."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from mattermost_house import MattermostHouse, mattermost

from semel.channels.mattermost.parse import KEY_PROP
from semel.channels.mattermost.receipts import TOKEN_REFUSED
from semel.faces.channel_check import TEST_MESSAGE, check_channel, send_test_message
from semel.gateway.ports import CLOCK_MARGIN_S, Answers, Caps, Denied, NotSent, Receipt, Rejected, Unknown
from semel.testing.mattermost import BOT, MattermostDouble


async def test_a_message_goes_as_markdown_with_its_key_in_two_places(there: MattermostHouse) -> None:
    receipt = await there.channel.send(there.op("**bold** [a](https://e.org)", key="k-1"))
    (asked,) = there.double.asked("POST /posts")
    assert asked["body"]["message"] == "**bold** [a](https://e.org)"
    assert asked["body"]["pending_post_id"] == "k-1" and asked["body"]["props"] == {KEY_PROP: "k-1"}
    assert receipt == Receipt(there.double.shown(there.direct)[-1]["id"])


async def test_whole_channels_are_not_called_and_people_can_be_mentioned(there: MattermostHouse) -> None:
    await there.channel.send(there.op("@all @channel, @here and @ann", to=there.room))
    (text,) = there.double.texts(there.room)
    assert not any(name in text for name in ("@all", "@channel", "@here")) and "@ann" in text


@pytest.mark.parametrize("char", ["x", "é", "\u202e", "@all "])
async def test_the_longest_part_is_taken_whole(there: MattermostHouse, char: str) -> None:
    caps: Caps = there.channel.caps
    assert caps.max_len is not None
    text = (char * caps.max_len)[: caps.max_len].rstrip()
    await there.channel.send(there.op(text, marked=True))
    assert len(there.double.texts(there.direct)[0]) >= len(text)


async def test_a_thread_and_a_person_are_addresses(there: MattermostHouse) -> None:
    root = there.double.write(there.room, there.ann, "root")
    await there.channel.send(there.op("in the thread", to=f"{there.room}:thread-{root}"))
    await there.channel.send(there.op("to ann", to=f"@{there.ann}"))
    await there.channel.send(there.op("to ann again", to=f"@{there.ann}"))
    assert there.double.shown(there.room)[-1]["root_id"] == root
    assert there.double.texts(there.direct) == ["to ann", "to ann again"]
    assert len(there.double.asked("POST /channels/direct")) == 1


async def test_with_threads_room_an_answer_goes_into_the_thread_of_its_question(tmp_path: Path) -> None:
    async with mattermost(tmp_path, threads="room") as there:
        root = there.double.write(there.room, there.ann, "root")
        data = {"channel": there.room, "thread": root}
        await there.channel.send(there.op("answer", to=there.room, answers=Answers(root, None, data)))
        assert there.double.shown(there.room)[-1]["root_id"] == root


@pytest.mark.parametrize("address", ["-", "garden", "a" * 25, f"{'a' * 26}/../x", f"{'a' * 26}:thread-", "@ann"])
async def test_an_address_that_is_none_is_rejected_before_anything_is_asked(
    there: MattermostHouse, address: str
) -> None:
    with pytest.raises(Rejected, match="is not an address of Mattermost"):
        await there.channel.send(there.op("x", to=address))
    assert there.double.requests == []


async def test_edits_deletions_and_reactions_can_be_repeated(there: MattermostHouse) -> None:
    id = (await there.channel.send(there.op("first"))).id
    for _ in range(2):
        assert await there.channel.send(there.op("second", kind="edit", target=id)) == Receipt(id)
        assert await there.channel.send(there.op("👍", kind="react", target=id)) == Receipt(id)
    assert there.double.texts(there.direct) == ["second"]
    assert there.double.shown(there.direct)[0]["props"], "an edit keeps the key"
    for _ in range(2):
        assert await there.channel.send(there.op(kind="delete", target=id)) == Receipt(id)
    assert there.double.texts(there.direct) == []


async def test_a_file_is_uploaded_once_and_shown_by_one_post(there: MattermostHouse) -> None:
    path = there.tmp_path / "plan.txt"
    path.write_bytes(b"the plan")
    op = there.op("here it is", kind="file", file=path, name="plan.txt", mime="text/plain")
    there.double.fail("POST /posts", "429")
    with pytest.raises(NotSent):
        await there.channel.send(op)
    there.fresh_limits()
    await there.channel.send(op)
    (post,) = there.double.shown(there.direct)
    assert there.double.files[post["file_ids"][0]]["content"] == b"the plan" and post["message"] == "here it is"
    assert len(there.double.asked("POST /files")) == 1


async def test_a_deleted_message_is_gone_whatever_the_server_calls_it(there: MattermostHouse) -> None:
    """A server before 7 answers 403 where a newer one answers 404; then the post itself is asked for."""
    gone, here = [(await there.channel.send(there.op(text))).id for text in ("gone", "here")]
    there.double.remove(gone)
    there.double.fail("DELETE /posts", "403", times=None)
    assert await there.channel.send(there.op(kind="delete", target=gone)) == Receipt(gone)
    with pytest.raises(Rejected, match="delete_post"):
        await there.channel.send(there.op(kind="delete", target=here))
    with pytest.raises(Rejected, match="it was deleted, or"):
        await there.channel.send(there.op("new", kind="edit", target=gone))


async def test_a_file_is_uploaded_anew_once_its_upload_may_have_been_used(there: MattermostHouse) -> None:
    """An upload belongs to one post: from a second one, the server leaves it out and says nothing."""
    path = there.tmp_path / "plan.txt"
    path.write_bytes(b"the plan")
    op = there.op("here it is", kind="file", file=path, name="plan.txt", mime="text/plain")
    there.double.fail("POST /posts", "drop", after=True)
    with pytest.raises(Unknown):
        await there.channel.send(op)
    there.double.remove(there.double.shown(there.direct)[0]["id"])  # a person deleted it; so no look finds it
    there.double.advance(31)
    await there.online()
    assert await there.channel.find(op, time.time() - 60) is None
    await there.channel.send(op)
    (post,) = there.double.shown(there.direct)
    assert [there.double.files[id]["name"] for id in post["file_ids"]] == ["plan.txt"]


ANSWERS: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("429", {"retry_after": 7}, NotSent, "too many"),
    ("401", {}, NotSent, "does not accept this token"),
    ("403", {}, Rejected, "create_post"),
    ("400", {}, Rejected, "It did not work"),
    ("500", {}, Unknown, "It did not work"),
    ("502", {}, Unknown, "not an answer of Mattermost"),
    ("drop", {}, Unknown, "127.0.0.1"),
]


@pytest.mark.parametrize(("how", "more", "kind", "says"), ANSWERS, ids=[row[0] for row in ANSWERS])
async def test_each_answer_means_what_is_documented(
    there: MattermostHouse, how: Any, more: dict[str, Any], kind: type[Exception], says: str
) -> None:
    there.double.fail("POST /posts", how, **more)
    with pytest.raises(kind, match=says) as error:
        await there.channel.send(there.op("x"))
    assert getattr(error.value, "retry_after", None) == {"429": 7.0, "401": 60.0}.get(how)


async def test_an_archived_channel_and_a_channel_without_the_bot_are_named(there: MattermostHouse) -> None:
    there.double.archive(there.room)
    with pytest.raises(Rejected, match="the channel is archived"):
        await there.channel.send(there.op("x", to=there.room))
    with pytest.raises(Rejected, match="add the bot to the team and the channel"):
        await there.channel.send(there.op("x", to=there.double.channel("others", there.bob, invited=False)))


async def test_after_an_exhausted_limit_nothing_is_asked_until_it_is_reset(tmp_path: Path) -> None:
    async with mattermost(tmp_path, MattermostDouble(rate=(1, 30.0))) as there:
        await there.channel.send(there.op("one"))
        with pytest.raises(NotSent) as error:
            await there.channel.send(there.op("two"))
        assert 0 < (error.value.retry_after or 0) <= 30 and len(there.double.requests) == 1


@pytest.mark.parametrize("was_taken", [True, False])
async def test_a_part_whose_answer_was_lost_is_found_or_proved_absent(there: MattermostHouse, was_taken: bool) -> None:
    op, since = there.op("lost"), time.time()
    there.double.fail("POST /posts", "drop", after=was_taken)
    with pytest.raises(Unknown):
        await there.channel.send(op)
    for n in range(250):  # more than two pages, several in each millisecond
        there.double.write(there.direct, there.ann, f"later {n}")
    await there.again()
    found = await there.channel.find(op, since)
    posts = [post["id"] for post in there.double.shown(there.direct) if post["user_id"] == BOT]
    assert [found.id] == posts if was_taken and found is not None else (found, posts) == (None, [])
    looks = there.double.asked(f"/channels/{there.direct}/posts")
    assert len(looks) >= (3 if was_taken else 9), "absence is believed after three looks, to the last page"


async def test_a_message_with_links_is_not_absent_while_their_previews_may_be_fetched(there: MattermostHouse) -> None:
    """The server saves it afterwards (its source, app/post.go, CreatePost: getEmbedsAndImages comes before Save)."""
    op = there.op("see ![a](https://e.org/a.png) and https://e.org")
    with pytest.raises(Unknown, match="previews"):
        await there.channel.find(op, time.time() - CLOCK_MARGIN_S - 11)
    since = time.time() - CLOCK_MARGIN_S - 13
    with pytest.raises(Unknown, match="has not been connected yet"):
        await there.channel.find(op, since)
    await there.online()
    assert await there.channel.find(op, since) is None


@pytest.mark.parametrize("how", ["403", "500", "502", "drop"])
async def test_an_answer_that_is_no_page_proves_no_absence(there: MattermostHouse, how: Any) -> None:
    there.double.fail("GET /channels/.*/posts", how, times=None)
    with pytest.raises(Unknown):
        await there.channel.find(there.op("x"), time.time())


async def test_a_repeat_within_the_servers_memory_makes_no_second_post(there: MattermostHouse) -> None:
    op = there.op("once")
    first = await there.channel.send(op)
    assert await there.fresh().send(op) == first and there.double.texts(there.direct) == ["once"]
    there.double.advance(31)
    assert await there.fresh().find(op, time.time() - 60) == first, "later, the history knows it"


async def test_typing_is_shown_in_a_thread(there: MattermostHouse) -> None:
    root = there.double.write(there.room, there.ann, "root")
    await there.channel.typing(f"{there.room}:thread-{root}")
    assert there.double.typed == [{"channel_id": there.room, "parent_id": root}]


async def test_set_up_names_what_is_wrong_and_reads_a_test_message_back(there: MattermostHouse) -> None:
    assert not (await check_channel(there.fresh())).problem
    refused = await check_channel(there.fresh(token="x" * 26))
    assert (refused.problem, refused.refused, refused.settings) == (TOKEN_REFUSED, True, ("token",))
    elsewhere = await check_channel(there.fresh(url=f"{there.urls.url}/elsewhere"))
    assert "check the setting `url`" in elsewhere.problem
    sent = await send_test_message(there.fresh(), there.direct)
    assert sent.was_read_back and there.double.texts(there.direct) == [TEST_MESSAGE]
    there.double.lacks.add("create_post")
    assert "the permission create_post" in (await send_test_message(there.fresh(), there.direct)).problem
    there.double.rooms.clear()
    there.double.teams.clear()  # of no channel, the server tells as "[" and then an error
    assert "is in no team" in (await check_channel(there.fresh())).problem


async def test_a_token_that_is_revoked_while_it_runs_is_reported_by_the_channel(there: MattermostHouse) -> None:
    await there.online()
    there.double.token = "another0000000000000000000"
    with pytest.raises(NotSent, match="does not accept this token"):
        await there.channel.send(there.op("x"))
    with pytest.raises(Denied, match="does not accept this token"):
        await there.wait_for_failure()
