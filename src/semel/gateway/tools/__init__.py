"""The tools of agents: handle their tool calls, run background jobs, fire schedules and heartbeats."""
