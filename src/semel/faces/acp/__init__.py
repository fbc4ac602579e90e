"""Semel as the agent that an editor starts: ACP v1 over stdin and stdout (`semel acp`).

`editor_profiles` says what each editor does. `semel.lua` is the client of one, a plain Neovim; `setup_lines` prints the
line that loads it.

Through the gateway: `editor_server` answers the editor's requests. `attachment` watches a session for it, and
`row_writer` writes what is new there as ACP updates. `gateway_link` finds or starts the gateway.

Without one (`--alone`): `update_writer` and `call_rows` write fold operations as ACP updates. `stream` decides for each
line between one editor and one agent whether it passes or is written anew. `relay` runs the agent and moves bytes.
"""
