"""A double of Slack: one workspace with one app, its conversations and the people there.

In a test's own process:

    double = SlackDouble()
    double.person("U1", "Ann")
    async with serve(double) as url:                 # the `api` setting of a slack channel
        double.write(double.direct("U1"), "U1", "hello")
        ...
        assert double.texts(double.direct("U1")) == ["Hello yourself"]

In a process of its own, controlled over HTTP (to try a bot without a workspace):

    python -m semel.testing.slack --port 8082        # prints its URL and its tokens
    curl -d '{"channel": "D7", "user": "U7", "text": "hello"}' http://127.0.0.1:8082/control/write
    curl -d '{"channel": "D7"}' http://127.0.0.1:8082/control/texts

Modelled, as https://docs.slack.dev documents it (tests/slack/test_slack_double.py names the page of each case):

- the Web API: answers with `ok`, errors by name, 429 with Retry-After, tokens, scopes and `x-oauth-scopes`
- auth.test, apps.connections.open, chat.postMessage, chat.update, chat.delete, reactions.add, conversations.history,
  conversations.replies, conversations.open, conversations.info, users.conversations, users.info,
  assistant.threads.setStatus, files.getUploadURLExternal, files.completeUploadExternal, files.info, and the upload and
  download of files
- limits: texts of 40,000 characters (cut) and of 4,000 in an edit (refused), 12,000 in all `markdown` blocks of a
  message, 50 blocks, 25 buttons, names of 75 characters, pages of 999 messages, metadata that needs its two fields;
  about 13,200 characters in all blocks together, which is not documented (slackapi/bolt-js issue 2509)
- rate limits, if `limits` is set: a message a second in a channel, and calls a minute by the tier of their method
- threads, edits, deletions (with a tombstone if there are replies), reactions, files, membership, archived channels
- Socket Mode: addresses that can be used once, `hello`, envelopes that come again until they are acknowledged, at most
  three times, also over a later connection, `disconnect` with its reasons, and more than one connection at a time
- what makes it hard: events that happen while no connection is open are not kept; an `app_mention` comes beside its
  message; one message of a person under two time stamps, if a test asks for it; history without replies of threads
- faults of calls, before or after they took effect: `SlackDouble.fail`

Not modelled: other apps, user tokens, Enterprise Grid, Slack Connect, ephemeral messages, views, unfurling, search,
scheduled messages, streaming, retention. A real workspace may deliver one conversation's events out of order: the
double does not.
"""

from semel.testing.slack.double import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, SlackDouble
from semel.testing.slack.server import serve

__all__ = ["APP_TOKEN", "BOT_TOKEN", "SIGNING_SECRET", "SlackDouble", "serve"]
