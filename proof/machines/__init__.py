"""State machines over the law and the ledger (Hypothesis): whatever can happen, in any order, for as long as it takes.

What it proves, step by step: after each thing that happens, every book of the ledger holds, every watcher sees what the
ledger holds, and each answer is what a simple model expects (`model`). Beside it, one machine for each law that is a
table or a function: `delivery` (parts against a platform with a truth of its own), `turns` (wakes, attempts, loss),
`fold` (re-deliveries of every kind against the plain stream), `copies` (claims and re-issued calls against a person
who counts), `asking` (who is known, codes, what an answer to a permission request means), `permitting` (each such
request is answered once), `restoring` (a ledger that is put back from a copy, against platforms that forget nothing).

The ledger under the machine is a `ledger.Ledger`: its transactions, and what an auditor must read. SQLite's stands in
`sqlite`; another one is put under the same machine by naming its factory (`machine.LedgerMachine.make`).

Reading order: ledger (the port), house (watchers and what must hold), model (what must come of it), machine (the
choices), the machines of the law, main.
"""
