"""The double is Telegram in what a bot can tell of it, also in a process of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from telegram_house import ANNA, FORUM, GROUP, TelegramHouse

from semel.gateway.ports import NotSent
from semel.testing.telegram import TOKEN, TelegramControl, TelegramDouble, serve
from semel.testing.telegram.limits import FloodLimits
from semel.testing.telegram.model import ApiError


class Bot:
    """Calls of the API, as any client makes them."""

    def __init__(self, url: str, token: str = TOKEN) -> None:
        self.url = f"{url}/bot{token}"

    async def __call__(self, method: str, **params: Any) -> Any:
        return (await self.raw(method, **params))["result"]

    async def raw(self, method: str, **params: Any) -> Any:
        return (await self.ask("POST", f"{self.url}/{method}", json=params)).json()

    async def ask(self, verb: str, url: str, **more: Any) -> httpx2.Response:
        async with httpx2.AsyncClient(trust_env=False, timeout=20, verify=False) as http:
            return await http.request(verb, url, **more)

    async def error(self, method: str, **params: Any) -> tuple[int, str]:
        answer = await self.raw(method, **params)
        assert answer["ok"] is False
        return answer["error_code"], answer["description"]


@pytest.fixture
async def bot(there: TelegramHouse) -> Bot:
    return Bot(there.url)


# ---------------------------------------------------------------- updates


async def test_an_update_is_told_until_the_offset_is_above_it(there: TelegramHouse, bot: Bot) -> None:
    there.double.write(ANNA, "one")
    there.double.write(ANNA, "two")
    for _ in range(3):
        told = await bot("getUpdates")
        assert [each["message"]["text"] for each in told] == ["one", "two"]
    first = told[0]["update_id"]
    assert len(await bot("getUpdates", offset=first + 1, limit=1)) == 1
    assert await bot("getUpdates", offset=first + 2) == []
    assert await bot("getUpdates") == []


async def test_an_update_waits_for_a_day(there: TelegramHouse, bot: Bot) -> None:
    there.double.write(ANNA, "one")
    there.double.advance(86_000)
    there.double.write(ANNA, "two")
    there.double.advance(1_000)
    assert [each["message"]["text"] for each in await bot("getUpdates")] == ["two"]


async def test_a_negative_offset_counts_from_the_end_and_forgets_the_rest(there: TelegramHouse, bot: Bot) -> None:
    for text in "abc":
        there.double.write(ANNA, text)
    assert [each["message"]["text"] for each in await bot("getUpdates", offset=-2)] == ["b", "c"]
    assert [each["message"]["text"] for each in await bot("getUpdates")] == ["b", "c"]


async def test_a_long_poll_is_answered_when_something_comes(there: TelegramHouse, bot: Bot) -> None:
    poll = asyncio.create_task(bot("getUpdates", timeout=20))
    await asyncio.sleep(0.05)
    assert not poll.done()
    there.double.write(ANNA, "now")
    assert (await poll)[0]["message"]["text"] == "now"


async def test_of_two_polls_the_first_is_ended(there: TelegramHouse, bot: Bot) -> None:
    polls = [asyncio.create_task(bot.raw("getUpdates", timeout=20)) for _ in range(2)]
    done, [second] = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
    assert done.pop().result()["error_code"] == 409
    there.double.write(ANNA, "x")
    assert len((await second)["result"]) == 1
    there.double.webhook("https://x.org")
    assert "webhook is active" in (await bot.error("getUpdates"))[1]
    assert await bot("deleteWebhook") is True


async def test_kinds_that_were_not_asked_for_are_not_told(there: TelegramHouse, bot: Bot) -> None:
    id = there.double.write(ANNA, "x")
    there.double.react(ANNA, id, "👍")
    assert len(await bot("getUpdates")) == 1  # reactions only to who names them
    await bot("getUpdates", allowed_updates=["message_reaction"])
    there.double.react(ANNA, id, "🔥")
    there.double.write(ANNA, "y")
    told = await bot("getUpdates", allowed_updates=None)
    assert [sorted(each) for each in told] == [["message", "update_id"], ["message_reaction", "update_id"]]


async def test_a_channel_tells_of_its_own_edits_and_counts_reactions(there: TelegramHouse, bot: Bot) -> None:
    news = -1001000000900
    kinds = ["channel_post", "edited_channel_post", "edited_message", "message_reaction", "message_reaction_count"]
    await bot("getUpdates", allowed_updates=kinds)
    there.double.group(news, "News", type="channel", status="administrator")
    post = there.double.write(news, "post")
    there.double.edit(news, post, "post, edited")
    there.double.react(news, post, "👍", sender=ANNA)
    posted, edited, counted = await bot("getUpdates")
    assert posted["channel_post"]["text"] == "post"
    assert edited["edited_channel_post"]["text"] == "post, edited" and "edit_date" in edited["edited_channel_post"]
    [reaction] = counted["message_reaction_count"]["reactions"]
    assert reaction == {"type": {"type": "emoji", "emoji": "👍"}, "total_count": 1}
    await bot("sendMessage", chat_id=news, text="ours")
    assert there.double.texts(news) == ["ours"]
    assert len(await bot("getUpdates")) == 3, "what a bot says itself is not told to it"


async def test_privacy_mode_shows_what_is_meant_for_the_bot(there: TelegramHouse, bot: Bot) -> None:
    double = there.double
    double.group(GROUP)
    mine = (await bot("sendMessage", chat_id=GROUP, text="mine"))["message_id"]
    double.write(GROUP, "talk", sender=ANNA)
    double.write(GROUP, "/cmd", sender=ANNA)
    double.write(GROUP, "/cmd@other_bot", sender=ANNA)
    double.write(GROUP, "hi @test_semel_bot", sender=ANNA)
    double.write(GROUP, "yes", sender=ANNA, reply_to=mine)
    texts = [each["message"]["text"] for each in await bot("getUpdates")]
    assert texts == ["/cmd", "hi @test_semel_bot", "yes"]
    double.member(GROUP, "administrator")
    double.write(GROUP, "talk", sender=ANNA)
    assert (await bot("getUpdates"))[-1]["message"]["text"] == "talk"


# ---------------------------------------------------------------- what is refused


API = "https://core.telegram.org/bots/api"


def keyboard(text: str = "Yes", **more: Any) -> dict[str, Any]:
    return {"inline_keyboard": [[{"text": text, **more}]]}


CASES = [
    # request, the documented answer ("": it is taken), and the page, below API, that names the limit or the method
    ("sendMessage", {"chat_id": ANNA, "text": "x" * 4096}, "", "#sendmessage"),
    ("sendMessage", {"chat_id": ANNA, "text": "x" * 4097}, "message is too long", "#sendmessage"),
    ("sendMessage", {"chat_id": ANNA, "text": "😀" * 2049}, "message is too long", "#messageentity"),
    ("sendMessage", {"text": "x"}, "chat_id is empty", "#sendmessage"),
    ("sendMessage", {"chat_id": 99, "text": "x"}, "chat not found", "#sendmessage"),
    ("sendMessage", {"chat_id": ANNA, "text": "  "}, "message text is empty", "#sendmessage"),
    ("sendMessage", {"chat_id": ANNA, "text": "x", "message_thread_id": 4}, "message thread not found", "#sendmessage"),
    ("sendMessage", {"chat_id": ANNA, "text": "x", "reply_parameters": {"message_id": 44}}, "to be replied",
     "#replyparameters"),
    ("sendMessage", {"chat_id": ANNA, "text": "x", "reply_parameters": {"message_id": 44,
     "allow_sending_without_reply": True}}, "", "#replyparameters"),
    ("sendMessage", {"chat_id": ANNA, "text": "x", "reply_markup": keyboard(callback_data="d" * 64)}, "",
     "#inlinekeyboardbutton"),
    ("sendMessage", {"chat_id": ANNA, "text": "x", "reply_markup": keyboard(callback_data="d" * 65)},
     "BUTTON_DATA_INVALID", "#inlinekeyboardbutton"),
    ("sendMessage", {"chat_id": ANNA, "text": "x", "reply_markup": keyboard(callback_data="")},
     "BUTTON_DATA_INVALID", "#inlinekeyboardbutton"),
    ("sendMessage", {"chat_id": ANNA, "text": "x", "reply_markup": keyboard("", callback_data="d")},
     'Field "text"', "#inlinekeyboardbutton"),
    ("editMessageText", {"chat_id": ANNA, "message_id": 99, "text": "x"}, "message to edit not found",
     "#editmessagetext"),
    ("editMessageText", {"chat_id": ANNA, "message_id": 1, "text": "x"}, "message can't be edited", "#editmessagetext"),
    ("editMessageText", {"chat_id": ANNA, "message_id": 2, "text": "said"}, "message is not modified",
     "#editmessagetext"),
    ("editMessageText", {"chat_id": ANNA, "message_id": 2, "text": "x" * 4097}, "message is too long",
     "#editmessagetext"),
    ("deleteMessage", {"chat_id": ANNA, "message_id": 99}, "message to delete not found", "#deletemessage"),
    ("setMessageReaction", {"chat_id": ANNA, "message_id": 99}, "message to react not found", "#setmessagereaction"),
    ("setMessageReaction", {"chat_id": ANNA, "message_id": 1, "reaction": [{"type": "emoji", "emoji": "👍"}]}, "",
     "#reactiontypeemoji"),
    ("setMessageReaction", {"chat_id": ANNA, "message_id": 1, "reaction": [{"type": "emoji", "emoji": "🦜"}]},
     "REACTION_INVALID", "#reactiontypeemoji"),
    ("sendChatAction", {"chat_id": ANNA, "action": "typing"}, "", "#sendchataction"),
    ("sendChatAction", {"chat_id": ANNA, "action": "dancing"}, "wrong parameter action", "#sendchataction"),
    ("sendDocument", {"chat_id": ANNA, "document": "nothing"}, "wrong file identifier", "#sending-files"),
    ("getFile", {"file_id": "nothing"}, "wrong file_id", "#getfile"),
    ("answerCallbackQuery", {"callback_query_id": "nothing"}, "query is too old", "#answercallbackquery"),
    ("getWebhookInfo", {}, "", "#getwebhookinfo"),
]  # fmt: skip
"""Telegram's documents name methods, fields and limits; the words of a refusal are those of its own server."""


@pytest.mark.parametrize(
    ("method", "params", "said", "page"), CASES, ids=[f"{API}{case[3]} {case[2] or 'taken'}" for case in CASES]
)
async def test_a_call_gets_the_documented_answer(
    there: TelegramHouse, bot: Bot, method: str, params: dict[str, Any], said: str, page: str
) -> None:
    there.double.write(ANNA, "/start")
    await bot("sendMessage", chat_id=ANNA, text="said")
    answer = await bot.raw(method, **params)
    assert answer["ok"] is (said == ""), f"{API}{page}"
    if said:
        assert answer["error_code"] == 400 and said in answer["description"], f"{API}{page}"
        assert there.double.texts(ANNA) == ["said"]


@pytest.mark.parametrize("type", ["private", "channel"])
async def test_a_message_can_be_deleted_for_48_hours(there: TelegramHouse, bot: Bot, type: str) -> None:
    """https://core.telegram.org/bots/api#deletemessage"""
    there.double.write(ANNA, "/start")
    chat = ANNA
    if type == "channel":
        chat = there.double.group(-1001000000900, "News", type="channel", status="administrator")["id"]
    old, new = [(await bot("sendMessage", chat_id=chat, text=text))["message_id"] for text in ("old", "new")]
    there.double.advance(48 * 3600 - 60)
    assert await bot("deleteMessage", chat_id=chat, message_id=new) is True
    there.double.advance(120)
    assert "can't be deleted" in (await bot.error("deleteMessage", chat_id=chat, message_id=old))[1]
    assert there.double.texts(chat) == ["old"]


async def test_too_many_messages_get_429_with_a_time(there: TelegramHouse, bot: Bot) -> None:
    """https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this"""
    double, now = there.double, [1e9]
    double.now, double.limits = lambda: now[0], FloodLimits()
    double.group(GROUP)
    double.write(ANNA, "/start")

    async def send(chat: int) -> int:
        """Return the seconds to wait, 0 if the message was sent."""
        answer = await bot.raw("sendMessage", chat_id=chat, text="x")
        return 0 if answer["ok"] else int(answer["parameters"]["retry_after"])

    assert [await send(ANNA) for _ in range(4)] == [0, 0, 0, 3], "a message a second in a chat"
    assert await send(GROUP) == 0
    now[0] += 3
    assert await send(ANNA) == 0
    for _ in range(19):
        now[0] += 1
        assert await send(GROUP) == 0
    now[0] += 3
    assert await send(GROUP) == 60 - 25, "20 a minute in a group"
    for chat in range(100, 130):
        double.write(chat, "/start")
    now[0] += 3
    assert [await send(chat) for chat in range(100, 130)] == [0] * 30
    assert await send(ANNA) == 1, "30 a second in all chats"


async def test_the_channel_waits_as_long_as_a_flood_limit_says(there: TelegramHouse) -> None:
    there.double.write(ANNA, "/start")
    there.double.limits = FloodLimits()
    waits = []
    for n in range(5):
        try:
            await there.channel.send(there.op(f"message {n}"))
        except NotSent as error:
            waits.append(error.retry_after)
    assert len(waits) == 2 and all(wait and 1 <= wait <= 3 for wait in waits)
    assert there.double.texts(ANNA) == ["message 0", "message 1", "message 2"]


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("abc", [("bold", 0, 4)]),
        ("abc", [("bold", -1, 2)]),
        ("abc", [("bold", 1, 0)]),
        ("a😀c", [("bold", 0, 2)]),
        ("a😀c", [("bold", 2, 2)]),
        ("a  c", [("bold", 1, 2)]),
        ("abc", [("glow", 0, 2)]),
        ("abc", [("bold", 0, 2), ("italic", 1, 2)]),
        ("abc", [("bold", 0, 3), ("code", 0, 1)]),
        ("abc", [("pre", 0, 3), ("code", 0, 1)]),
        ("abc", [("blockquote", 0, 3), ("blockquote", 0, 1)]),
        ("abc", [("text_link", 0, 3)]),
    ],
)
async def test_entities_must_lie_on_the_text_and_nest(bot: Bot, there: TelegramHouse, text: str, entities: Any) -> None:
    there.double.write(ANNA, "/start")
    marks = [{"type": kind, "offset": offset, "length": length} for kind, offset, length in entities]
    assert (await bot.error("sendMessage", chat_id=ANNA, text=text, entities=marks))[0] == 400


async def test_spaces_around_a_text_are_dropped_and_entities_move(bot: Bot, there: TelegramHouse) -> None:
    there.double.write(ANNA, "/start")
    marks = [{"type": "bold", "offset": 2, "length": 4}]
    sent = await bot("sendMessage", chat_id=ANNA, text="  😀ab  ", entities=marks)
    assert (sent["text"], sent["entities"]) == ("😀ab", [{"type": "bold", "offset": 0, "length": 4}])


async def test_tokens_methods_and_forms(there: TelegramHouse, bot: Bot) -> None:
    assert (await Bot(there.url, "nonsense").error("getMe"))[0] == 404
    assert (await Bot(there.url, "8000000001:BB" + "b" * 33).error("getMe"))[0] == 401
    assert (await bot.error("makeCoffee"))[0] == 404
    assert (await bot("GETME"))["username"] == "test_semel_bot"
    there.double.write(ANNA, "/start")
    answer = await bot.ask("GET", f"{bot.url}/sendMessage", params={"chat_id": ANNA, "text": "by query"})
    assert answer.json()["ok"]
    answer = await bot.ask("POST", f"{bot.url}/sendMessage", data={"chat_id": str(ANNA), "text": "by form"})
    assert answer.json()["ok"]
    files = {"document": ("a.txt", b"\r\n--x\0", "text/plain")}
    answer = await bot.ask("POST", f"{bot.url}/sendDocument", data={"chat_id": str(ANNA)}, files=files)
    told = await bot("getFile", file_id=answer.json()["result"]["document"]["file_id"])
    got = await bot.ask("GET", f"{there.url}/file/bot{TOKEN}/{told['file_path']}")
    assert got.content == b"\r\n--x\0"
    assert there.double.texts(ANNA) == ["by query", "by form", ""]


async def test_chats_that_the_bot_cannot_speak_in(there: TelegramHouse, bot: Bot) -> None:
    there.double.write(ANNA, "/start")
    there.double.block(ANNA)
    assert (await bot.error("sendMessage", chat_id=ANNA, text="x"))[0] == 403
    there.double.group(GROUP)
    new = there.double.migrate(GROUP)
    answer = await bot.raw("sendMessage", chat_id=GROUP, text="x")
    assert answer["parameters"] == {"migrate_to_chat_id": new}
    assert (await bot("sendMessage", chat_id=new, text="x"))["chat"]["type"] == "supergroup"


async def test_message_ids_are_one_count_but_in_supergroups(there: TelegramHouse) -> None:
    there.double.group(GROUP)
    there.double.group(FORUM, forum=True)
    assert [there.double.write(chat, "x", sender=ANNA) for chat in (ANNA, GROUP, ANNA, FORUM, FORUM)] == [1, 2, 3, 2, 3]


async def test_faults_strike_as_often_as_told_and_by_chance(there: TelegramHouse, bot: Bot) -> None:
    there.double.write(ANNA, "/start")
    there.double.fail("sendMessage", "500", times=2)
    answers = [(await bot.raw("sendMessage", chat_id=ANNA, text="x"))["ok"] for _ in range(3)]
    assert answers == [False, False, True]
    there.double.fail("sendMessage", "500", times=None, chance=0.5)
    answers = [(await bot.raw("sendMessage", chat_id=ANNA, text="x"))["ok"] for _ in range(40)]
    assert 5 < sum(answers) < 35
    there.double.clear_faults()
    there.double.fail("*", "429", retry_after=3)
    assert (await bot.raw("getMe"))["parameters"] == {"retry_after": 3}


async def test_a_fault_may_refuse_with_a_reason(there: TelegramHouse, bot: Bot) -> None:
    there.double.write(ANNA, "/start")
    there.double.fail("sendMessage", "400")
    there.double.fail("sendMessage", "403", description="Forbidden: bot was kicked")
    assert await bot.error("sendMessage", chat_id=ANNA, text="x") == (400, "Bad Request: message is too long")
    assert await bot.error("sendMessage", chat_id=ANNA, text="x") == (403, "Forbidden: bot was kicked")


async def test_a_fault_that_slows_gives_the_right_answer(there: TelegramHouse, bot: Bot) -> None:
    there.double.fail("getMe", "slow", seconds=0.05)
    assert (await bot("getMe"))["is_bot"]


# ---------------------------------------------------------------- in a process of its own


@pytest.fixture(scope="module")
def process() -> Iterator[TelegramControl]:
    command = [sys.executable, "-m", "semel.testing.telegram", "--port", "0", "--username", "other_bot"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        url, token = running.stdout.readline().split()
        assert token == TOKEN
        assert running.stdout.readline() == "the bot is @other_bot\n"
        yield TelegramControl(url)
        running.kill()


async def test_a_process_is_driven_over_http(process: TelegramControl) -> None:
    bot = Bot(process.url)
    call = process.call
    await asyncio.to_thread(call, "person", id=ANNA, name="Anna")
    await asyncio.to_thread(call, "send_file", chat=ANNA, content=b"\0\xff", name="a.bin")
    await asyncio.to_thread(call, "write", chat=ANNA, text="hello")
    told = await bot("getUpdates")
    assert told[0]["message"]["document"]["file_size"] == 2
    await bot("sendMessage", chat_id=ANNA, text="hello Anna")
    assert await asyncio.to_thread(call, "texts", chat=ANNA) == ["hello Anna"]
    asked = await asyncio.to_thread(call, "asked", method="sendMessage")
    assert [(each["status"], each["params"]["text"]) for each in asked] == [(200, "hello Anna")]
    assert TOKEN not in json.dumps(asked)


async def test_a_fault_with_a_wrong_field_is_answered_with_the_fields(process: TelegramControl) -> None:
    with pytest.raises(ValueError, match=r"there is no field 'retry'; the fields are: after, chance, .*seconds, times"):
        await asyncio.to_thread(process.call, "fail", method="sendMessage", how="429", retry=8)


async def test_one_that_is_started_again_uses_no_id_twice(process: TelegramControl) -> None:
    """A gateway that heard message 1 once does not hear another message 1."""
    since = time.time() - 3600
    write, group = {"chat": 70, "text": "hello"}, {"chat": GROUP, "text": "/hello"}
    await asyncio.to_thread(process.call, "group", id=GROUP)
    forum = await asyncio.to_thread(process.call, "migrate", chat=GROUP)
    for where in (write, {**group, "chat": forum, "sender": 70}):
        assert await asyncio.to_thread(process.call, "write", **where) > since
    waiting = await asyncio.to_thread(process.call, "pending")
    assert all(update["update_id"] > since for update in waiting)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("dance", {}, "there is no control"), ("fail", {"method": "sendMessage", "how": "?"}, "should be one of drop"),
        ("write", {"chat": ANNA}, "text"), ("group", {"wrong": 1}, "wrong"),
        ("edit", {"chat": ANNA, "message": 999, "text": "x"}, "999"),
        ("write", {"chat": ANNA, "text": "x", "person": 8}, r"no field 'person'; .*: chat \(required\), .*, sender, "),
        ("send_file", {"chat": ANNA, "content": "not base64!"}, "content must be base64"),
    ],
)  # fmt: skip
def test_a_wrong_control_says_so(process: TelegramControl, name: str, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        process.call(name, **arguments)


def test_the_docstring_names_every_control() -> None:
    from semel.testing.telegram.server import CONTROL

    assert all(callable(getattr(TelegramDouble, name)) for name in CONTROL)


async def test_a_closed_double_leaves_nothing_open(tmp_path: Path) -> None:
    double = TelegramDouble()
    async with serve(double) as url:
        polls = [asyncio.create_task(Bot(url)("getUpdates", timeout=50)) for _ in range(3)]
        await asyncio.sleep(0.1)
    for poll in polls:
        with pytest.raises((httpx2.HTTPError, KeyError)):
            await poll


def test_an_error_is_what_telegram_answers() -> None:
    assert ApiError(429, "Too Many Requests: retry after 5", retry_after=5).body() == {
        "ok": False,
        "error_code": 429,
        "description": "Too Many Requests: retry after 5",
        "parameters": {"retry_after": 5},
    }


def test_a_port_that_is_taken_is_told_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "semel.testing.telegram", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == f"semel-telegram-double: port {port} cannot be used: Address already in use\n"
