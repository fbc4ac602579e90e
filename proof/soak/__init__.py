"""200 sessions on 20 channels for eight minutes, with agents that misbehave; for five of them a SIGKILL of the gateway
every 20 s.

A real `semel up` with a real configuration and a ledger on disk is started, killed and started again at once. Messages
come over the API, by signed webhooks, from a double of Telegram and from the sample platform of the conformance suite
in three safety classes; each is told again until it is acknowledged, and some of them after that. Agents die in
mid-stream, exit, hang, send rubbish, flood their output, ignore a cancellation, leave orphans, repeat themselves and
call tools late; between the big kills single agents and MCP processes are killed, too. Every session is watched by a
stream that comes back with its rev. After the storm the same traffic goes on without kills for some minutes; then all
comes to rest, and what the platforms logged, what the watchers hold, what the agents wrote down and what the ledger
says are held against each other (`judge`), and memory, descriptors and processes against their own past (`gauges`).

| module | what it is |
|---|---|
| plan | what is configured, who says what, and how agents misbehave |
| unruly_agent | the agent, a program |
| world | the gateway's process and all that comes from it |
| platforms | the platforms, with their faults |
| traffic | who writes, watches and stops |
| gauges | memory, descriptors, processes, latencies |
| evidence | what each side saw, read when all is at rest |
| judge | what of it breaks a law |
"""
