"""A double of Telegram's Bot API: one bot, the chats it is in, and the people there.

In a test's own process:

    double = TelegramDouble()
    async with serve(double) as url:                 # the `api` setting of a telegram channel
        double.write(7, "hello")                     # person 7 writes to the bot
        ...
        assert double.texts(7) == ["Hello yourself"]

In a process of its own, controlled over HTTP (for tests that kill the gateway, or to try a bot without an account):

    python -m semel.testing.telegram --port 8081     # prints its URL and its token
    curl -d '{"chat": 7, "text": "hello"}' http://127.0.0.1:8081/control/write
    curl -d '{"chat": 7}' http://127.0.0.1:8081/control/shown

    control = TelegramControl("http://127.0.0.1:8081")
    control.call("fail", method="sendMessage", how="drop", after=True)    # the message is sent, its answer is lost

Modelled, as https://core.telegram.org/bots/api documents it and Telegram's own server (tdlib/telegram-bot-api) does:

- updates: kept 24 hours or until a poll's offset is above them; long polls of 50 s at most; negative offsets; an offset
  in the future; `allowed_updates`, which stays in force until a poll changes it; ids that start over; a second poll
  ends the first with 409; 409 while a webhook is set
- the bot's token: 401 for a wrong one, 404 for a malformed one
- getMe, getUpdates, deleteWebhook, getWebhookInfo, sendMessage, editMessageText, editMessageCaption, deleteMessage
  (48 hours), setMessageReaction (Telegram's emoji, one), sendChatAction, sendDocument, sendPhoto, sendAudio,
  sendVideo, sendVoice, getFile and the download; methods in any case; parameters as JSON, form, multipart or query
- texts of 4096 and captions of 1024 UTF-16 units, counted after entities; entities that must lie inside the text, on
  whole characters, and nest as documented; 100 entities; uploads of 50 MB (photos 10 MB), downloads of 20 MB
- private chats, groups, supergroups, channels, forum topics, direct messages of channels, replies, message ids (one
  count for private chats and basic groups, one of its own for each supergroup), privacy mode, reactions that only an
  administrator bot gets, a bot that is blocked, removed or made an administrator, a group that becomes a supergroup
- flood limits, if `limits` is set: a message a second in a chat, 20 a minute in a group, 30 a second in all
- faults, before or after a call took effect: `semel.testing.telegram.model.ApiFault`

Not modelled: flood limits of edits (plan a 429 instead), markup (`parse_mode`), reply keyboards, inline mode, payments,
stickers that the bot sends, business accounts, more than one bot, message deletion by time, media groups that the bot
sends. Where Telegram would silently correct entities, the double refuses them. A message that mentions the bot passes
privacy mode, as it does at Telegram, though the documentation does not say so.
"""

from semel.testing.telegram.double import TOKEN, TelegramDouble
from semel.testing.telegram.model import ApiFault
from semel.testing.telegram.server import TelegramControl, serve

__all__ = ["TOKEN", "ApiFault", "TelegramControl", "TelegramDouble", "serve"]
