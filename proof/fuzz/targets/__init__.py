"""The readers that are fuzzed, one a module, and the code whose coverage leads the fuzzer there."""

from __future__ import annotations

READS: dict[str, tuple[str, ...]] = {
    "acp": (
        "semel.agents.acp", "semel.gateway.turns.permissions", "semel.law.permission_questions", "semel.acp_stream",
        "semel.text.wellformed",
    ),
    "answers": (
        "semel.channels.telegram.transport", "semel.channels.telegram.receipts",
        "semel.channels.matrix.transport", "semel.channels.webhook",
    ),
    "closing": ("semel.law", "semel.text"),
    "config": ("semel.faces.config", "semel.gateway.settings", "semel.channels", "semel.timing"),
    "discord": ("semel.channels.discord", "semel.gateway.inbound.channel_inbox", "semel.law.identity"),
    "email": ("semel.channels.email", "semel.gateway.inbound.channel_inbox", "semel.law.access"),
    "http": (
        "semel.faces.http", "semel.gateway.api.reads", "semel.gateway.api.search", "semel.gateway.inbound.inbox",
        "semel.law", "semel.text",
    ),
    "imports": (
        "semel.ledger.admin.import_file", "semel.ledger.admin.import_session", "semel.gateway.api.archive",
        "semel.faces.documents",
    ),
    "irc": ("semel.channels.irc", "semel.gateway.inbound.channel_inbox", "semel.law.identity"),
    "markdown": ("semel.channels.telegram", "semel.channels.matrix", "semel.channels.xmpp", "semel.channels.email",
        "semel.channels.markdown", "semel.channels.styled_text", "semel.faces.http.markdown", "semel.faces.documents"),
    "matrix": ("semel.channels.matrix", "semel.gateway.inbound.channel_inbox", "semel.law.identity"),
    "mattermost": ("semel.channels.mattermost", "semel.gateway.inbound.channel_inbox", "semel.law.identity"),
    "mcp": ("semel.tools", "semel.faces.http.operations.agent_tools"),
    "search": ("semel.ledger.search",),
    "server": ("semel.faces.http",),
    "signal": ("semel.channels.signal", "semel.gateway.inbound.channel_inbox", "semel.law.identity"),
    "slack": ("semel.channels.slack", "semel.gateway.inbound.channel_inbox", "semel.law.identity"),
    "split": ("semel.text.split", "semel.text.fences", "semel.text.graphemes"),
    "sse": ("semel.faces.http", "semel.gateway.api.reads", "semel.gateway.turns.stream_view"),
    "stream": ("semel.acp_stream",),
    "teams": ("semel.channels.teams", "semel.gateway.inbound.channel_inbox", "semel.law.identity"),
    "telegram": ("semel.channels.telegram", "semel.gateway.inbound.channel_inbox", "semel.law.identity"),
    "times": ("semel.timing", "semel.gateway.clock", "semel.gateway.settings.tables"),
    "tools": ("semel.faces.http.operations.agent_tools", "semel.faces.http.routing", "semel.tools"),
    "traces": ("semel.acp_stream", "semel.faces.fold"),
    "webhook": ("semel.channels.signature", "semel.channels.webhook_in", "semel.channels.webhook_service"),
    "whatsapp": ("semel.channels.whatsapp", "semel.gateway.inbound.channel_inbox", "semel.law.identity"),
    "xmpp": ("semel.channels.xmpp", "semel.gateway.inbound.channel_inbox", "semel.law.identity"),
}  # fmt: skip


def names() -> list[str]:
    """All of them, in order."""
    return list(READS)
