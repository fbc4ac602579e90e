"""A turn from its beginning to its end: progress, tool calls, permission requests, background jobs, history."""
