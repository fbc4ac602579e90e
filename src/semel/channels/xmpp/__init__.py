"""The XMPP channel: one account on one server, its chats and its rooms (docs/xmpp.md).

    settings          the keys of `[channels.NAME]`
    channel           the channel port: run, send, find, typing
    transport         slixmpp without reconnecting and without tasks that outlive the connection
    session           one connection: open, send, request and answer, close
    ns, xml, address  XML namespaces; helpers for XML and for JIDs

    receive           reads archives and live messages, and puts them into the inbox
    archive           XEP-0313: archives, page by page, and the saved position in each
    parse             a stanza as a note: a message, edit, deletion, ...
    incoming          a note as inbox events, with its references and files resolved
    references        finds the message that another one refers to

    send              a part as XML; sends it and confirms that it was accepted
    render            Markdown as XEP-0393 message styling
    files             XEP-0363 uploads, and downloads of linked files

    rooms             XEP-0045: joining rooms and staying in them, and who is in them

Design: the server's archive is the source of messages. A live message only signals that there is something new; then
the archive is read from the cursor on, and its messages are put into the inbox in the archive's order. So a message has
the same key (its stanza-id) whether it arrived live, during a restart or while the connection was broken.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Collection

from semel.channels.xmpp.settings import XmppSettings
from semel.gateway.ports import Channel
from semel.installation import find_install_command

__all__ = ["XmppSettings", "find_missing_packages", "make"]


def find_missing_packages(settings: Collection[str] = ()) -> str:
    """Return what has to be installed first, for people; "" if nothing is missing."""
    return f"XMPP needs slixmpp: {find_install_command('xmpp')}" if importlib.util.find_spec("slixmpp") is None else ""


def make(name: str, settings: XmppSettings) -> Channel:
    """Create the channel. Its modules are imported here, so that a gateway without XMPP does not load them.

    Raises ValueError if its library is not installed.
    """
    if missing := find_missing_packages():
        raise ValueError(missing)
    from semel.channels.xmpp.channel import XmppChannel

    return XmppChannel(name, settings)
