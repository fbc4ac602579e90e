"""XML namespaces, each with the document that defines it, and the qualified names of stanzas."""

from __future__ import annotations

CLIENT = "jabber:client"
STANZA_ERRORS = "urn:ietf:params:xml:ns:xmpp-stanzas"
ARCHIVE = "urn:xmpp:mam:2"  # XEP-0313
CARBONS = "urn:xmpp:carbons:2"  # XEP-0280
CORRECT = "urn:xmpp:message-correct:0"  # XEP-0308
DELAY = "urn:xmpp:delay"  # XEP-0203
DISCO_INFO = "http://jabber.org/protocol/disco#info"  # XEP-0030
DISCO_ITEMS = "http://jabber.org/protocol/disco#items"
FALLBACK = "urn:xmpp:fallback:0"  # XEP-0428
FASTEN = "urn:xmpp:fasten:0"  # XEP-0422, of XEP-0424 before version 0.4
FORM = "jabber:x:data"  # XEP-0004
FORWARD = "urn:xmpp:forward:0"  # XEP-0297
HINTS = "urn:xmpp:hints"  # XEP-0334
IDS = "urn:xmpp:sid:0"  # XEP-0359
MUC = "http://jabber.org/protocol/muc"  # XEP-0045
MUC_OWNER = MUC + "#owner"
MUC_USER = MUC + "#user"
OCCUPANT = "urn:xmpp:occupant-id:0"  # XEP-0421
OOB = "jabber:x:oob"  # XEP-0066
PING = "urn:xmpp:ping"  # XEP-0199
REACTIONS = "urn:xmpp:reactions:0"  # XEP-0444
RECEIPTS = "urn:xmpp:receipts"  # XEP-0184
REFERENCE = "urn:xmpp:reference:0"  # XEP-0372
REPLY = "urn:xmpp:reply:0"  # XEP-0461
RETRACT = "urn:xmpp:message-retract:1"  # XEP-0424
RETRACT_0 = "urn:xmpp:message-retract:0"
ROSTER = "jabber:iq:roster"  # RFC 6121, 2
RSM = "http://jabber.org/protocol/rsm"  # XEP-0059
STATES = "http://jabber.org/protocol/chatstates"  # XEP-0085
UPLOAD = "urn:xmpp:http:upload:0"  # XEP-0363

MESSAGE = f"{{{CLIENT}}}message"
PRESENCE = f"{{{CLIENT}}}presence"
IQ = f"{{{CLIENT}}}iq"
