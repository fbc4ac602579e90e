"""Read the stores that OpenClaw, Hermes and NanoClaw keep on disk, and import them (docs/coming-from.md).

A reader (`openclaw`, `hermes`, `nanoclaw`) yields `records`. `conversation_file` writes each conversation as the file
that `semel import` takes, and `importing` sends these files, the people and the schedules to a gateway over its API. So
there is no second way into the ledger. A reader opens every file and database read-only.
"""
