"""Agent drivers: how the gateway runs an agent and talks to it.

    acp     agents that speak the Agent Client Protocol (ACP), each a subprocess
    model   agents that are a loop over a model's API in the gateway's own process
    demo    the bundled demo agent, a separate program that speaks ACP
    launch  the first program of every agent process
    known   agents that Semel knows, and which of them are on PATH

`acp` and `model` both implement `semel.gateway.ports.Agent`; the gateway does not know which of them it uses.
"""
