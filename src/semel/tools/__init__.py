"""Semel's tools for agents (send_message and the others) and the MCP server that offers them.

`python -m semel.tools` is that server: one small process per live agent. It forwards each call over a unix socket to
the gateway, which does the work. Because it starts with every agent, it imports only the standard library and a few
modules of this package (docs/decisions/mcp-process.md).

    catalogue                  the tools' names, descriptions and schemas, as the model reads them
    protocol, process          MCP without I/O; the event loop around it
    lines                      split the agent's messages into lines
    gateway_link, outcomes     the connection to the gateway; the gateway's outcome as text for the model
    in_process_tools           the same tools for an agent inside the gateway, without the socket
    http_tools                 the same tools over HTTP, served by the gateway
    address, trusted_files     find the gateway, and check that its address and files are not another user's
    sockets                    find the user at the other end of a local connection
    exec                       `semel exec` and background jobs
"""
