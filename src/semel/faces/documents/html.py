"""A session as one self-contained HTML file, without scripts or external resources.

Agent text is rendered and sanitised as on the web page (faces/http/markdown.py); all other text is escaped. A content
security policy inside the file forbids scripts and loading wherever the file is opened.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from semel.faces.transcript import describe_item, flatten_record, format_body, format_timestamp, list_remarks, speaker
from semel.text.json_types import Json
from semel.text.visible import visible


def escape(text: str) -> str:
    """Escape HTML and make invisible characters visible."""
    return html.escape(visible(text))


DOCUMENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

STYLE = """\
:root { color-scheme: light dark; --ink: #1c211f; --soft: #5d6763; --ground: #fff; --mine: #e4efe9; --line: #dfe3de;
  --raised: #f1f3f0; --accent: #2f6f5e; --warn: #fff6e0; font: 16px/1.55 system-ui, "Segoe UI", Roboto, sans-serif; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eae8; --soft: #9aa5a0; --ground: #151817; --mine: #24362f;
  --line: #313835; --raised: #212624; --accent: #7cc3ac; --warn: #2e2718; } }
body { margin: 0 auto; max-width: 780px; padding: 24px 16px 64px; background: var(--ground); color: var(--ink); }
h1 { font-size: 1.3rem; margin: 0; overflow-wrap: anywhere; }
article :is(h1, h2, h3, h4, h5, h6) { font-size: 1.05rem; margin: .8em 0 .3em; }
.about { color: var(--soft); font-size: .85rem; border-bottom: 1px solid var(--line); padding-bottom: 12px; }
article { margin: 18px 0; overflow-wrap: anywhere; }
article > header { display: flex; flex-wrap: wrap; gap: 0 10px; color: var(--soft); font-size: .8rem; }
article > header b { color: var(--ink); }
article > header a { color: inherit; text-decoration: none; }
.agent > header b { color: var(--accent); }
.text { white-space: pre-wrap; }
.user > .text { background: var(--mine); border-radius: 10px; padding: 7px 13px; }
.event > .text { border-left: 3px solid var(--line); padding-left: 12px; font-size: .9rem; }
.notice { background: var(--warn); border-radius: 8px; padding: 6px 12px; font-size: .9rem; }
.superseded > div { opacity: .55; }
pre, code { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: .86em; }
pre { background: var(--raised); border-radius: 8px; padding: 10px 14px; overflow-x: auto; }
pre code { background: none; }
blockquote { border-left: 3px solid var(--line); margin: .5em 0; padding-left: 12px; color: var(--soft); }
table { border-collapse: collapse; } td, th { border: 1px solid var(--line); padding: 3px 9px; }
a { color: var(--accent); }
@media print { article { break-inside: avoid-page; } body { max-width: none; } }
"""


class HtmlDocument:
    media = "text/html"
    shows_items = True

    def page(self, records: Sequence[Json]) -> bytes:
        return "".join(map(self._render_record, records)).encode()

    def end(self) -> bytes:
        return b"</main>\n</body>\n</html>\n"

    def _render_record(self, record: Json) -> str:
        if record["line"] == "session":
            return _render_head(record)
        if record["line"] == "item":
            label, *parts = describe_item(record)
            spans = "".join(f"<span>{escape(part)}</span>" for part in parts)
            return f'<article class="item">\n<header><b>{escape(label)}</b>{spans}</header>\n</article>\n'
        return _render_article(flatten_record(record)) if record["line"] == "entry" else ""


def _render_head(session: Json) -> str:
    name = escape(session["title"] or session["key"])
    facts = [session["key"]] if session["title"] else []
    count = session["entries"]
    facts += [f"with {session['agent']}", f"{count} entr{'y' if count == 1 else 'ies'}"]
    facts += [f"exported {format_timestamp(session['exported'])}"]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{DOCUMENT_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{name}</title>
<style>
{STYLE}</style>
</head>
<body>
<h1>{name}</h1>
<p class="about">{escape(" · ".join(facts))}</p>
<main>
"""


def _render_article(entry: Json) -> str:
    from semel.faces.http.markdown import render_html  # here, because faces.http imports this module

    seq, at = int(entry["seq"]), format_timestamp(entry["at"])
    marks_html = "".join(f"<span>{escape(mark)}</span>" for mark in list_remarks(entry))
    classes = f"{entry['role']} superseded" if entry.get("superseded") else entry["role"]
    agent_html = render_html(format_body(entry)) if entry["role"] == "agent" else None
    text = f'<div class="text">{escape(format_body(entry))}</div>' if agent_html is None else f"<div>{agent_html}</div>"
    return (
        f'<article class="{escape(classes)}" id="e{seq}">\n<header><b>{escape(speaker(entry))}</b>'
        f'<a href="#e{seq}">{seq}</a><time>{at}</time>{marks_html}</header>\n{text}\n</article>\n'
    )
