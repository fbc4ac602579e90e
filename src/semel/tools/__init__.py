"""What an agent may do mid-turn. `python -m semel.tools` is its MCP server: one small process per live agent.

Nothing here imports more than it needs: this process is started with every agent
(docs/decisions/mcp-process.md).
"""
