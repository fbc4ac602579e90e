"""`semel demo`: what goes wrong elsewhere, played for real against a gateway of its own, and read back from its record.

`stage` starts the processes: a gateway, the scripted agent that it serves, and the double of Telegram. `cases` plays
one case after the other and counts what is there afterwards. Nothing that is shown is written down beforehand, but for
the numbers that each count must have.
"""
