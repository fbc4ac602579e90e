"""Semel as the agent that an editor starts: ACP v1 over stdin and stdout (`semel acp`).

Through the gateway, a line of the editor goes this way:

- `connection` reads it (`editor_pipe`), and answers the request (`editor_server`) with operations of the gateway, which
  it finds or starts (`gateway_link`). `serve_editor` runs it.
- `session` has what belongs to one open session. `open_session` watches it, passes on prompts, cancels and answers, and
  shows what is new.
- `updates` writes that as ACP updates: `row_writer` from the rows of a session's view.

Without a gateway (`--alone`):

- `alone` runs the agent and moves bytes (`relay`), and decides for each line whether it passes unchanged (`stream`).
- `updates` writes the other lines anew: `update_writer` from the operations of the fold.

For both, `line_writer` writes single lines and `call_writer` tool calls, `editor_profiles` says what each editor does,
and `pipes` splits and moves bytes. `setup_lines` prints what to write into an editor's settings. `semel.lua` is a
client for a plain Neovim.
"""
