"""Run a command and report its end to a session reliably: `semel exec` and agents' background jobs.

    spool     reports on disk until they are acknowledged: one directory per run, locked by the process that reports it
    output    the command's output: stored in a file, with head and tail for the report
    command   the command's process, in a session of its own
    reports   the texts and data of the events that report a run
    reporter  the thread that posts reports until each is acknowledged
    runner    `semel exec`: all of the above together
    inventory what the spools hold, for `semel exec --list` and `--drop`

    supervisor   the process that runs one background job and outlives the gateway
    background   the gateway's side of jobs: start them, cancel them, find those whose supervisor died

Read them in this order. docs/exec.md and docs/jobs.md say what users can rely on.
"""
