"""Who thinks:

Agents that speak ACP (`semel.agents.acp`), and the bundled demo agent (`semel.agents.demo`).
"""
