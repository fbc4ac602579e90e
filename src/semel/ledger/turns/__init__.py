"""A turn from begin to end: live output, tool calls, permission requests, background jobs, history."""
