"""What to do about a file or directory that cannot be written, by the system's error number."""

from __future__ import annotations

import errno

_ALLOW_WRITE = "Let the user who runs Semel write it (chown -R USER, chmod -R u+rwX), or choose another data_dir."
_MOVE_FILE = "A file is in its place: move it away, or choose another data_dir."
_REMEDIES = {
    errno.ENOSPC: "Its disk is full: free some space.",
    errno.EDQUOT: "This user's disk quota is used up: free some space, or raise the quota.",
    errno.EFBIG: "Raise the limit on the size of files ('ulimit -f'; of a service, LimitFSIZE=), and start it again.",
    errno.EROFS: "Mount its file system writable (after errors of a disk, the kernel makes it read-only), or choose "
    "another data_dir.",
    errno.EACCES: _ALLOW_WRITE,
    errno.EPERM: _ALLOW_WRITE,
    errno.EEXIST: _MOVE_FILE,
    errno.ENOTDIR: _MOVE_FILE,
}


def advise_on_write_error(error: OSError) -> str:
    """Return what to do about a failed write, as a sentence; "" if nothing is known."""
    return _REMEDIES.get(error.errno or 0, "")
