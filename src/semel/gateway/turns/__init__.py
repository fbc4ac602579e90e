"""Turns: scheduling, running one, the prompt, the agent's stream, permission requests, the pool of agents."""
