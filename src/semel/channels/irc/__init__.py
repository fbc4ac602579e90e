"""The IRC channel: one nick on one network, its channels and its private messages (docs/irc.md).

    settings     the keys of `[channels.NAME]`
    channel      the channel port: run and send
    wire         messages of the protocol, as bytes and as objects; names as the server compares them
    connection   one connection: TLS, lines, the pace at which they leave
    login        capabilities, SASL, the nick
    session      what a logged-in connection knows and asks: pings, channels, accounts

    receive      reads messages and what the server plays back, and puts them into the inbox
    parse        a message as an inbox event
    send         a part as lines; sends them and confirms that the server took them
    render       Markdown as lines with IRC's formatting codes

Design: a nick is no identity, because anybody can take it. Who has an account at the network is known by it
(`account-tag`), and an answer to an account is sent only to a nick that the server says is logged in to it.
"""

from __future__ import annotations

from semel.channels.irc.settings import ACCOUNT_ID, EXAMPLE_ID, IrcSettings
from semel.gateway.ports import Channel

__all__ = ["ACCOUNT_ID", "EXAMPLE_ID", "IrcSettings", "make"]


def make(name: str, settings: IrcSettings) -> Channel:
    """Create the channel. Its modules are imported here, so that a gateway without IRC does not load them."""
    from semel.channels.irc.channel import IrcChannel

    return IrcChannel(name, settings)
