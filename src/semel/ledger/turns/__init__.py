"""A turn from its beginning to its end: live output, tool calls, permission requests, background jobs, history."""
