"""Agents and platforms that behave as real ones were measured to, with a death behind each thing that an agent tells.

Each behaviour of `measured` is a short conversation in the world of the schedules: an agent that does just this, asked
twice. It is run to rest once, and then once more for each update that the agent told: the agent dies behind it, the
gateway dies behind it, somebody stops the turn there, or says something more. The judge is that of the schedules.
"""
