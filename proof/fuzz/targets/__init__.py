"""The readers that are fuzzed, one a module, and the code whose coverage leads the fuzzer there."""

from __future__ import annotations

READS: dict[str, tuple[str, ...]] = {
    "acp": ("semel.agents.acp", "semel.gateway.permissions", "semel.law.requests", "semel.law.stream",
        "semel.law.wellformed"),
    "answers": ("semel.channels.telegram.api", "semel.channels.telegram.outcome", "semel.channels.matrix.wire",
        "semel.channels.webhook"),
    "closing": ("semel.law",),
    "config": ("semel.faces.config", "semel.channels", "semel.law.schedule", "semel.law.walltime"),
    "email": ("semel.channels.email", "semel.gateway.incoming", "semel.law.people"),
    "http": ("semel.faces.http", "semel.gateway.views", "semel.gateway.searching", "semel.gateway.inbox", "semel.law"),
    "imports": ("semel.ledger.importfile", "semel.ledger.importing", "semel.gateway.archive", "semel.faces.documents"),
    "markdown": ("semel.channels.telegram", "semel.channels.matrix", "semel.channels.xmpp", "semel.channels.email",
        "semel.channels.markdown", "semel.faces.http.markdown", "semel.faces.documents"),
    "matrix": ("semel.channels.matrix", "semel.gateway.incoming", "semel.law.identity"),
    "mcp": ("semel.tools", "semel.gateway.rpc"),
    "rpc": ("semel.gateway.rpc", "semel.tools"),
    "search": ("semel.ledger.searching",),
    "server": ("semel.faces.http",),
    "split": ("semel.law.split", "semel.law.fences", "semel.law.graphemes"),
    "sse": ("semel.faces.http", "semel.gateway.views", "semel.gateway.viewing"),
    "stream": ("semel.law.stream",),
    "telegram": ("semel.channels.telegram", "semel.gateway.incoming", "semel.law.identity"),
    "times": ("semel.law.schedule", "semel.law.walltime", "semel.gateway.zones", "semel.faces.config.values"),
    "traces": ("semel.law.stream", "semel.faces.fold"),
    "webhook": ("semel.channels.signature", "semel.channels.webhook_in"),
    "xmpp": ("semel.channels.xmpp", "semel.gateway.incoming", "semel.law.identity"),
}  # fmt: skip


def names() -> list[str]:
    """All of them, in order."""
    return list(READS)
