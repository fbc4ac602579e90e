"""Agent drivers: how the gateway runs an agent and talks to it.

    acp     agents that speak the Agent Client Protocol, each a subprocess
    model   a loop over model APIs inside the gateway's own process
    demo    the bundled demo agent, a separate program that speaks ACP
    launch  the first program of every agent process, known and found: agents we know of and find on PATH

`acp` and `model` both implement `semel.gateway.ports.Agent`; the gateway does not know which one it has.
"""
