"""The XMPP channel: one account on one server, its chats and its rooms (docs/xmpp.md).

    settings   what `[channels.NAME]` may hold
    channel    the port: run, send, find, typing
    hearing    from the archive to the inbox: what a connection does with what it hears
    session    one connection: it is opened, asks questions, and is closed with all that it started
    stream     slixmpp, tamed: no reconnecting, no task that outlives the connection
    archive    XEP-0313: pages, to the last one
    rooms      XEP-0045: who is there, and which of them we are
    reading    a stanza as a note of what somebody did
    notes      from a note to what the inbox takes
    book       which id a message was written with, and which one it is kept under
    stanzas    what leaves, as XML
    styling    Markdown as XEP-0393
    files      XEP-0363, and files that people link

The archive is the truth. A live message only tells that there is something new: the archive is then read from the
cursor on, and what it says is put, in its order. So a message has one key (its stanza-id), whether it was heard live,
missed during a restart, or lost by a broken connection.
"""

from semel.channels.xmpp.channel import XmppChannel
from semel.channels.xmpp.settings import XmppSettings

__all__ = ["XmppChannel", "XmppSettings"]
