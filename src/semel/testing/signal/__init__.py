"""A double of signal-cli: one account on Signal, its contacts and groups, and the program that a channel starts.

    double = SignalDouble()
    ann = double.person("Ann")                       # their account's id, and address
    async with serve(double) as port:                # `command` of a signal channel: double_command(port)
        double.write(ann, "hello")
        ...
        assert double.texts(ann) == ["Hello yourself"]

`program.py` is what the channel runs in the place of signal-cli: it passes lines on between its input and output and
the double, which lives in the test's process and outlasts the program, as Signal's servers and signal-cli's store do.

Modelled, as signal-cli's manual pages and source have it (tests/signal_channel/test_signal_double.py names the place of
each case):

- `signal-cli -a ACCOUNT [--config DIR] --output=json jsonRpc`: its errors at the start, and that a second one waits
- JSON-RPC: errors for what is no request, answers in any order, notifications `receive` in between
- send (recipients, group, note to self, text styles, attachments, quotes, edits), sendReaction, remoteDelete,
  sendTyping, version; the result of each recipient, and the error if nobody got the message
- failures of recipients: not registered, unknown identity, rate limit with and without a captcha, network
- received: messages, edits, deletions, reactions, quotes, mentions, styles, files in its directory, groups, messages of
  the account's other devices, receipts, typing, messages that cannot be decrypted
- what makes it hard: a message is forgotten once it was handed over; a time stamp that nobody can choose; the program
  may die or hang before or after it has sent (`SignalDouble.fail`)

Not modelled: Signal's own limits of texts, files and rates, which it does not publish (plan a failure instead); batches
of requests, several accounts, encryption, profiles, stories, calls, polls, stickers, expiring messages, contacts,
registration, linking.
"""

from semel.testing.signal.double import ACCOUNT, ACCOUNT_ID, SignalDouble
from semel.testing.signal.server import double_command, serve

__all__ = ["ACCOUNT", "ACCOUNT_ID", "SignalDouble", "double_command", "serve"]
