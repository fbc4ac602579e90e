"""Schedules: the whole gateway under seeded orders of everything that can come in another order, with faults.

A seed makes a plan (people who write, an agent's script, faults) and drives an event loop that owns all chance: which
of the ready callbacks runs next, when a thread of the ledger goes on, how long the network takes, when the process
dies. Time is the loop's own. The gateway, its rooms and its ledger are the real ones, on SQLite in a folder in memory;
the ledger's writer and readers are the real code on greenlets instead of threads, so that the loop chooses between
them as a machine would, also between a transaction and its commit.

After the last action the world has to come to rest within bounded virtual time, and is judged: the books, what each
platform took against the parts of the ledger, what was heard against what was bound and what agents were asked,
what agents said against the transcript, what watchers hold against the ledger. Some promises are looked at while it
runs: a part is `sending` in the committed ledger before its platform is called, what is acknowledged is committed,
what is seen is committed.

    python -m proof schedules                      6,000 seeds
    python -m proof schedules --seed N --verbose   one of them, told step by step; it replays identically
    python -m proof schedules --seed N --shrink    the fewest actions that still fail
"""
