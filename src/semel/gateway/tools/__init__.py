"""The tools of agents: handle their tool calls, run background jobs, and fire schedules and heartbeats."""
