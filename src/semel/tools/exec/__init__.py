"""A command that is run, watched, and reported until the gateway has it: `semel exec`, and agents' background jobs.

    spool     what must not be lost: one directory a run, fsync'd, held by the process that runs it
    output    what the command printed: kept in a file, shown on the terminal, a piece of it in the report
    command   the process itself, in a session of its own
    reports   the events that tell of it: their texts, their data
    reporter  the thread that posts them, until each is acknowledged
    watch     all of it together: what `semel exec` does

    supervisor   the same for a background job: a process of its own, which outlives the gateway
    background   how a gateway starts jobs, cancels them, and finds what lost its supervisor

Read them in this order. docs/exec.md and docs/jobs.md tell what a person may rely on.
"""
