"""A double of Discord: one bot, the servers ("guilds") that it is in, and the people there.

    double = DiscordDouble()
    async with serve(double) as urls:                # the settings `api` and `gateway` of a discord channel
        room = double.channel(double.guild("Garden"), "roses")
        double.write(room, "7000000000000000001", "hello")
        ...
        assert double.texts(room) == ["Hello yourself"]

In a process of its own, controlled over HTTP:

    semel-discord-double --port 8083      # prints the settings of a channel

Modelled, as https://docs.discord.com/developers documents it; tests/discord/test_discord_double.py has a table of
requests and documented answers, and discord.py 2.7.1 runs against it (identify, resume, messages, files, threads,
reactions, interactions):

- the gateway: Hello, heartbeats and their acknowledgement, heartbeats that stay away, Identify with intents (also the
  privileged one that is switched off) and its limit (`identify_s`), Ready, GUILD_CREATE, numbered events, Resume with
  everything after a number, Resumed, sessions that end, Reconnect, Invalid Session, close codes, payloads of 4096 bytes
  at most
- messages: create with nonce and enforce_nonce, get, list (after, before, limit), edit, delete; 2000 characters, 25 of
  a nonce, 10 MiB of a file; replies to what is gone; allowed_mentions; buttons; reactions; typing; threads from a
  message; direct conversations; people who take none
- slash commands, interactions with their three seconds, deferrals
- rate limits of a channel (`rate`) and their headers, 429 of all scopes
- faults, before or after a request took effect: `semel.testing.discord.model.ApiFault`

Not modelled: the limits of 50 requests a second in all, of 10,000 refused ones in ten minutes and of 120 payloads a
minute to the gateway; permissions beyond a hidden channel or history, archived threads, polls, stickers and embeds that
the bot sends, components but buttons, voice, shards, webhooks, compression, more than one bot.
"""

from semel.testing.discord.double import BOT, TOKEN, DiscordDouble
from semel.testing.discord.model import ApiFault
from semel.testing.discord.server import DiscordUrls, serve

__all__ = ["BOT", "TOKEN", "ApiFault", "DiscordDouble", "DiscordUrls", "serve"]
