"""What is sent to Teams: texts, cards, threads, and what each answer means."""

from __future__ import annotations

from typing import Any

import pytest
from teams_house import ANN, BOB, CHAT, TeamsHouse

from semel.channels.teams.render import render
from semel.channels.teams.send import MAX_MESSAGE_BYTES, MAX_TEXT_UNITS, make_message, measure_message
from semel.gateway.ports import REPEAT_PREFIX, Button, Denied, NotSent, Op, Rejected, Unknown

BUTTONS = (Button("Allow once", "/approve 7", "allow"), Button("Deny", "/deny 7", "deny"))


async def test_a_message_is_sent_edited_and_deleted(there: TeamsHouse) -> None:
    receipt = await there.channel.send(there.op("**hello** you"))
    assert there.double.texts(CHAT) == ["hello you"]
    edit = there.op("hello *again*", kind="edit", target=receipt.id)
    assert (await there.channel.send(edit)).id == receipt.id
    assert there.double.texts(CHAT) == ["hello again"]
    delete = there.op(kind="delete", target=receipt.id)
    for _ in range(2):  # a repeat finds it gone
        assert (await there.channel.send(delete)).id == receipt.id
    assert there.double.texts(CHAT) == []
    there.double.fail("edit", "empty", after=True)  # accepted, without a body
    other = await there.channel.send(there.op("one"))
    assert (await there.channel.send(there.op("two", kind="edit", target=other.id))).id == other.id
    with pytest.raises(Rejected, match="not found"):
        await there.channel.send(edit)


async def test_groups_and_threads_are_written_to_and_a_channel_gets_a_new_thread(there: TeamsHouse) -> None:
    root = there.double.write(ANN, "hello", address=there.garden)
    thread = f"{there.garden};messageid={root}"
    for address in (there.group, thread):
        receipt = await there.channel.send(there.op("yes", to=address))
        assert receipt.id.startswith(f"{address}/") and there.double.texts(address) == ["yes"]
    receipt = await there.channel.send(there.op("news", to=there.garden))
    begun = receipt.id.rpartition("/")[0]
    assert begun.startswith(f"{there.garden};messageid=") and begun != thread
    await there.channel.send(there.op("more news", to=there.garden, kind="edit", target=receipt.id))
    assert there.double.texts(begun) == ["more news"]


async def test_who_never_wrote_is_reached_if_they_have_the_app(there: TeamsHouse) -> None:
    eve = there.double.person("Eve", has_chat=False)
    there.double.fail("create", "502")
    with pytest.raises(NotSent, match="could not be opened"):
        await there.channel.send(there.op("hello", to=f"@{eve}"))
    for text in ("hello", "again"):
        await there.channel.send(there.op(text, to=f"@{eve}"))
    assert there.double.texts(f"@{eve}") == ["hello", "again"] and there.calls("create") == ["create"] * 2
    there.double.people[BOB].has_app = False
    with pytest.raises(Rejected, match="not installed for this person"):
        await there.channel.send(there.op("hello", to=f"@{BOB}"))


async def test_who_deleted_the_chat_is_written_to_in_a_new_one(there: TeamsHouse) -> None:
    there.double.write(ANN, "hello")
    await there.hear()
    there.double.delete_chat(ANN)
    receipt = await there.channel.send(there.op("…"))
    await there.channel.send(there.op("hello", kind="edit", target=receipt.id))
    await there.channel.send(there.op("again"))
    assert there.double.texts(CHAT) == ["hello", "again"] and there.calls("create") == ["create"]
    there.double.write(ANN, "thanks")
    await there.hear()
    await there.channel.send(there.op("bye"))
    assert there.double.texts(CHAT) == ["hello", "again", "bye"] and there.calls("create") == ["create"]


async def test_where_a_chat_is_served_is_saved_with_its_messages(there: TeamsHouse) -> None:
    there.double.write(ANN, "hello")
    moved = there.double.service_url.replace("/teams/", "/moved/")
    [request] = there.double.take_requests()
    assert (await there.take(*request))[0] == 200
    there.channel = there.fresh()
    await there.online()
    await there.channel.send(there.op("after a restart"))
    assert there.calls("create") == [] and there.double.texts(CHAT) == ["after a restart"]
    there.double.service_url = moved
    there.double.write(ANN, "from elsewhere")
    await there.hear()
    await there.stop()
    there.channel = there.fresh()
    await there.online()
    with pytest.raises(Rejected):  # the double is not there
        await there.channel.send(there.op("lost"))
    assert there.double.requests[-1]["path"].startswith("/moved/v3/conversations/a:1")


async def test_buttons_are_a_card_whose_press_comes_back_with_the_key(there: TeamsHouse) -> None:
    op = there.op("May I run **rm -r**?\n\n- one\n- two", buttons=BUTTONS)
    receipt = await there.channel.send(op)
    id = receipt.id.rpartition("/")[2]
    message = there.double.sent[id]["message"]
    assert "text" not in message and message["summary"] == "May I run rm -r? • one • two"
    assert there.double.texts(CHAT) == ["May I run rm -r?\n• one\n• two"]
    assert [button["style"] for button in there.double.buttons(id)] == ["positive", "destructive"]
    there.double.press(ANN, id, "Deny")
    echo, pressed = await there.hear()
    assert (echo.kind, echo.key, echo.of) == ("echo", op.key, receipt.id)
    assert (pressed.kind, pressed.text, pressed.of, pressed.address) == ("message", "/deny 7", receipt.id, CHAT)
    await there.channel.send(there.op("denied by Ann", kind="edit", target=receipt.id))
    assert there.double.texts(CHAT) == ["denied by Ann"] and there.double.buttons(id) == []


async def test_a_press_in_a_group_counts_as_addressed(there: TeamsHouse) -> None:
    receipt = await there.channel.send(there.op("Which?", to=there.group, buttons=BUTTONS[:1]))
    there.double.press(BOB, receipt.id.rpartition("/")[2], "Allow once")
    _, pressed = await there.hear()
    assert pressed.mentioned and pressed.sender is not None and pressed.sender.id == BOB


def test_the_longest_text_fits_with_any_characters() -> None:
    longest = MAX_TEXT_UNITS - len(REPEAT_PREFIX)
    many = tuple(Button(f"choice {n}", f"/answer 7 {n}") for n in range(25))
    for text in ("<&>\"'" * longest, "\x00" * longest, "ä\n" * longest, "**a** " * longest, "🙂" * longest):
        cut = text.encode("utf-16-le")[: 2 * longest].decode("utf-16-le", "ignore")
        for buttons in ((), many):
            message = make_message(Op("k", "post", CHAT, cut, marked=True, buttons=buttons))
            assert measure_message(message) <= MAX_MESSAGE_BYTES, text[:3]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a **b** *c* ~~d~~ `e`", "<p>a <strong>b</strong> <em>c</em> <s>d</s> <code>e</code></p>"),
        ("one\ntwo", "<p>one<br>\ntwo</p>"),
        ("<at>Ann</at> <b>x</b> &amp;", "<p>&lt;at&gt;Ann&lt;/at&gt; &lt;b&gt;x&lt;/b&gt; &amp;amp;</p>"),
        ("![a](https://e.org/x.png)", '<p><a href="https://e.org/x.png">a</a></p>'),
        ("[a](javascript:x)", "<p>[a](javascript:x)</p>"),
        ("| a | b |\n|---|---|\n| <1 | 22 |", "<pre><code>a   b\n--  --\n&lt;1  22</code></pre>"),
    ],
)
def test_markdown_becomes_the_html_of_teams(text: str, html: str) -> None:
    assert render(text) == {"textFormat": "xml", "text": html}


FAULTS: list[tuple[str, bool, type[Exception]]] = [
    ("429", False, NotSent), ("412", False, Unknown), ("500", True, Unknown), ("502", False, Unknown),
    ("503", True, Unknown), ("504", False, Unknown), ("drop", True, Unknown), ("cut", True, Unknown),
    ("html", False, Unknown), ("empty", True, Unknown), ("error", False, Rejected),
]  # fmt: skip


@pytest.mark.parametrize(("how", "after", "error"), FAULTS)
async def test_what_an_answer_means(there: TeamsHouse, how: Any, after: bool, error: type[Exception]) -> None:
    there.double.fail("post", how, after=after)
    with pytest.raises(error) as caught:
        await there.channel.send(there.op("hello"))
    assert getattr(caught.value, "retry_after", None) == (1.0 if how == "429" else None)


async def test_a_refusal_says_what_a_person_can_do(there: TeamsHouse) -> None:
    there.double.people[ANN].has_blocked = True
    there.double.remove_bot(there.group)
    for address, words in (
        (CHAT, "has blocked the bot"),
        (there.group, "add the app"),
        ("19:x@thread.v2", "no such chat"),
    ):
        with pytest.raises(Rejected, match=words):
            await there.channel.send(there.op("hello", to=address))
    there.double.people[ANN].has_app = False
    with pytest.raises(Rejected, match=r"MessageWritesBlocked\); the person has blocked the bot, or removed the app"):
        await there.channel.send(there.op("hello"))
    with pytest.raises(Rejected, match="not an address of Teams"):
        await there.channel.send(there.op("hello", to="#garden"))
    with pytest.raises(Rejected, match=f"small letters, {CHAT}"):  # else one chat would have two addresses
        await there.channel.send(there.op("hello", to=CHAT.upper()))


async def test_a_token_that_is_refused_is_replaced_and_one_that_ends_is_renewed(there: TeamsHouse) -> None:
    await there.channel.send(there.op("one"))
    there.double.tokens.clear()
    with pytest.raises(NotSent, match="client secret"):
        await there.channel.send(there.op("two"))
    await there.channel.send(there.op("two"))
    assert there.double.texts(CHAT) == ["one", "two"] and there.calls("token") == ["token"] * 2
    there.double.fail("token", "502")
    with pytest.raises(NotSent, match="no token now"):
        await there.fresh().send(there.op("three"))


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ({"client_secret": "not-the-right-secret"}, ("client_secret",)),
        ({"app_id": "00000000-0c5e-4c5e-9a51-3f0d7b1f6a20"}, ("app_id", "tenant")),
    ],
)
async def test_wrong_credentials_are_denied_and_named_before_anything_is_online(
    there: TeamsHouse, wrong: dict[str, str], names: tuple[str, ...]
) -> None:
    with pytest.raises(Denied, match="AADSTS") as caught:
        await there.fresh(**wrong).run(there.inbox)
    assert caught.value.settings == names and there.inbox.onlines == 0
    assert wrong.get("client_secret", "-----") not in str(caught.value)


async def test_typing_is_shown_and_is_no_message(there: TeamsHouse) -> None:
    await there.channel.typing(CHAT)
    await there.channel.typing(there.garden)  # a thread that does not exist yet has no sign
    assert there.calls("typing") == ["typing"] and there.double.texts(CHAT) == []


async def test_secrets_stand_in_no_error_and_no_repr(there: TeamsHouse) -> None:
    texts = [repr(there.channel), repr(there.channel.settings), repr(there.channel._api)]
    for call, how in (("post", "drop"), ("post", "502"), ("token", "500"), ("post", "error")):
        there.double.fail(call, how)  # type: ignore[arg-type]
        with pytest.raises((Unknown, NotSent, Rejected)) as caught:
            await there.channel.send(there.op("hello"))
        texts.append(str(caught.value))
        there.channel._api.drop_token()
    secrets = (there.settings["client_secret"], *there.double.tokens)
    assert len(secrets) > 1 and not [secret for secret in secrets if secret in " ".join(texts)]
