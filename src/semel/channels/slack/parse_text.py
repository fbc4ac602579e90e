"""A text in Slack's mark-up as plain text (https://docs.slack.dev/messaging/formatting-message-text).

| written | read |
|---|---|
| `<@U0123>` at the beginning, if it is the bot | nothing: the message is for us |
| `<@U0123>` elsewhere | the same: the agent can mention that person so |
| `<#C0123\\|general>` | `#general` |
| `<!here>`, `<!subteam^S1\\|@ops>` | `@here`, `@ops` |
| `<https://e.org\\|text>` | `[text](https://e.org)` |
| `<https://e.org>` | `https://e.org` |
| `&lt; &gt; &amp;` | `< > &` |

Names of people are not looked up for the text: a repeat of the message must have the same text (Law 1).
"""

from __future__ import annotations

import re

_ENTITY = re.compile(r"<([^<>\n]+)>")
_ESCAPES = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


def read_text(text: str, bot: str) -> tuple[str, bool]:
    """Return (a text as plain text, whether it mentions the bot). `bot`: the bot's user id."""
    mention = re.compile(rf"<@{re.escape(bot)}(\|[^<>]*)?>")
    is_mentioned = mention.search(text) is not None
    begin = re.match(rf"\s*(?:<@{re.escape(bot)}(?:\|[^<>]*)?>[\s,:]*)+", text)
    rest = text[begin.end() :] if begin is not None else text
    pieces, position = [], 0
    for match in _ENTITY.finditer(rest):
        pieces += [_unescape(rest[position : match.start()]), _read_entity(match[1])]
        position = match.end()
    return "".join([*pieces, _unescape(rest[position:])]), is_mentioned


def _read_entity(content: str) -> str:
    target, bar, label = content.partition("|")
    target, label = _unescape(target), _unescape(label)
    if target.startswith("@"):
        return f"<{target}>"
    if target.startswith("#"):
        return f"#{label or target[1:]}"
    if target.startswith("!"):
        name = target[1:].partition("^")[0]
        return label if bar and label else f"@{name}"
    bare = target.removeprefix("mailto:").removeprefix("tel:")
    if not label or label in (target, bare) or target in (f"http://{label}", f"https://{label}"):
        return bare
    return f"[{label}]({target})"


def _unescape(text: str) -> str:
    for written, read in _ESCAPES:
        text = text.replace(written, read)
    return text
