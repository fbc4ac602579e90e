"""A double of the Bot Connector and of Microsoft Teams: one bot, and the people who write to it.

In a test's own process:

    double = TeamsDouble()
    ann = double.person("Ann")
    async with serve(double) as settings:              # settings of a teams channel
        double.callback = "http://127.0.0.1:8420/v1/hooks/teams"
        double.write(ann, "hello")
        ...
        assert double.texts(f"@{ann}") == ["Hello yourself"]

Without a `callback`, `double.take_requests()` returns the requests that Teams would post.

In a process of its own, controlled over HTTP (to try a bot without Microsoft):

    python -m semel.testing.teams --port 8087          # prints the lines of semel.toml
    curl -d '{"person": "ID", "text": "hello"}' http://127.0.0.1:8087/control/write
    curl -d '{"address": "@ID"}' http://127.0.0.1:8087/control/texts

Modelled, as Microsoft documents it (tests/teams/test_teams_double.py names the page of each case):

- the login service: access tokens by client credentials, which end
- OpenID metadata and keys with their endorsements; a signed token with each request, with `serviceurl`
- POST, PUT and DELETE of activities in personal chats, group chats and threads of channels; `typing`; POST of a
  conversation: a personal chat, or a thread with its first message
- no idempotency and no history: the same request twice is two messages
- a text and an attachment in one message become two messages, and the answer names none
- files: a person's in the personal chat, and pictures anywhere, with the addresses to fetch them; pictures of the bot;
  the offer of a file, the answer to it, and OneDrive, which takes the file in pieces
- limits: 100 KB of a message, its pictures not counted, and 1 MB of a picture; with `limits`, 7 messages in 1 s, 8 in
  2 s, 60 in 30 s and 1,800 in an hour to one conversation
- errors by status and code: 401, 403 (not there, blocked, disabled), 404, 412, 413, 429 with Retry-After
- activities: message, messageUpdate, messageDelete, messageReaction, installationUpdate, the press of a button;
  mentions, without which a bot hears nothing in groups
- a request that was not taken comes again up to three times, and is lost then; in any order if `shuffle` is set
- faults of calls, before or after they took effect: `TeamsDouble.fail`

Not modelled: the size of pictures in pixels, Adaptive Cards' `Action.Execute`, messaging extensions, meetings, calls,
Graph, several tenants.
"""

from semel.testing.teams.double import TeamsDouble
from semel.testing.teams.model import APP_ID, CLIENT_SECRET, TENANT
from semel.testing.teams.server import serve

__all__ = ["APP_ID", "CLIENT_SECRET", "TENANT", "TeamsDouble", "serve"]
