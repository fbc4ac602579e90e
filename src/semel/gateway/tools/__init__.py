"""What agents may do in mid-turn: tool calls, background jobs, schedules, and the socket they come by."""
