"""Turns: schedule and run them, build prompts, show the agent's stream, ask for permissions, keep a pool of agents."""
