"""The program in the place of signal-cli: `program.py PORT [signal-cli's arguments]`.

It passes requests on to the double at PORT, and writes what comes back to its standard output. It tells the double that
it has written a message, which the double then forgets: as with signal-cli, what was written is not handed over again.
Started by its path, it loads nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading


def main() -> int:
    port, arguments = int(sys.argv[1]), sys.argv[2:]
    try:
        link = socket.create_connection(("127.0.0.1", port))
    except OSError as error:
        sys.stderr.write(f"Failed to reach the double: {error}\n")
        return 3
    has_ended = threading.Event()
    sending = threading.Lock()
    _send(link, sending, json.dumps(arguments).encode() + b"\n")
    threading.Thread(target=_pass_on_requests, args=(link, sending, has_ended), daemon=True).start()
    with link.makefile("rb") as lines, contextlib.suppress(OSError):
        for line in lines:
            word, _, rest = line.partition(b" ")
            if not line.endswith(b"\n"):
                break
            if word == b"exit":
                code, _, text = rest.decode().partition(" ")
                sys.stderr.write(text)
                return int(code)
            if word == b"stderr":
                sys.stderr.write(rest.decode())
                sys.stderr.flush()
                continue
            _write_all(rest)
            if word != b"answer":
                _send(link, sending, b"written " + word + b"\n")
    return 0 if has_ended.is_set() else 3


def _pass_on_requests(link: socket.socket, sending: threading.Lock, has_ended: threading.Event) -> None:
    for line in sys.stdin.buffer:
        if not _send(link, sending, line):
            return
    has_ended.set()
    with contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_WR)


def _send(link: socket.socket, sending: threading.Lock, line: bytes) -> bool:
    try:
        with sending:
            link.sendall(line)
    except OSError:
        return False
    return True


def _write_all(content: bytes) -> None:
    while content:
        content = content[os.write(1, content) :]


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # a thread still waits for input, and would hold up an orderly end
