"""Every step is a crash point: a process is killed at every system call that touches the disk or a socket.

A library in C (`killat.c`), loaded before every other one, stands between a process and the kernel and numbers the
moments between these calls: one between two calls, and none for locks (see `killat.c`). Point N is a SIGKILL to the
whole process at the N-th of these moments. A script is played once without a death, which counts
the points of each process, and then once for each point:

    gateway   a gateway in its first life, until its clean end: ledger, inbox, turns, outbox, the code of its channels,
              HTTP. The script: it hears by a chat with a cursor (two messages, one turn), by HTTP and by a webhook;
              streams, sends by a tool, closes with `<message to>` and an echo; a send is refused, answers are lost; a
              command reports; it stops and starts.
    recovery  the gateway that comes after one that was killed in the middle of a turn and of a send. The script: the
              first turn of the same.
    restored  the first gateway after a backup was put back (Law 14), until all is at rest. The backup is made while a
              channel of each class has a message whose answer is out and another in line behind it, a turn runs and a
              message waits; the gateway went on for a while before it was killed.
    tools     an agent's MCP process (`semel.tools`). The script: the same turn; the agent starts the process anew, and
              calls again.
    exec      the reporter of a command (`semel exec`). The script: a command is run and reported.
    flush     the reporter that takes over what a killed one left (`semel exec --flush`), after another one that the
              gateway refused: its token was none.
    jobs      the supervisor of a background job (`run_in_background`). The script: the agent starts a job and is told
              of its end.
    editor    `semel acp`: it loads the session, and its editor prompts. A new one then loads the session.

Each channel's worker is code inside the gateway: one channel of each safety class is at work (webhook: idempotent; the
other two are `post.py`, as somebody would write it), so their calls are among the gateway's points.

The world outside goes on through it all, in the process that plays the script: platforms with logs of their own, a chat
that tells again what was not acknowledged, callers that repeat a request with its key, and a watching client that
comes back with its rev. After the kill everything is started again, nothing else is killed, and when all is at rest the
judge looks: what the platforms took, what the ledger holds (all books, the transcript, the turns), what the watching
client saw, what the callers were answered, and how often the agent was asked (`judge.py`).

What counts as a call: every `write`, `send` and the like to a regular file, a socket or a pipe (the agent's, the MCP
process's), every `recv` and `read` from a socket or a pipe, `fsync`, `ftruncate`, opening with O_CREAT or O_TRUNC,
`unlink`, `rename`, `link`, `mkdir`, `chmod`, locks, `connect`, `accept`, `bind`, `listen`, `shutdown`, and `close` of
a socket. What does not: descriptors 1 and 2 (the log), the pair of sockets by which a process wakes itself, and reading
files, which changes nothing. What no library can see: memory that is shared with a file (SQLite's index of the
write-ahead log), and calls that the C library makes for itself.

Threads run as they like, so that the N-th call is not the same one in every run; points that a run did not get to are
counted as such.
"""
