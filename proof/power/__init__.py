"""Power loss: whatever the disk holds when it stops, the ledger opens whole and all acknowledged work is there.

A script of every transaction runs through the real store, with its writer thread, its groups, its write-ahead log and
its checkpoints, on a disk that records each file operation (`disk`, `recorder`, `workload`). After each operation the
disk is rebuilt as it could be then (`images`): all that was written is there (a kill), the last write is torn, all
that was not synced is lost, or any part of it, by sectors of 512 or 4096 bytes, drawn anew several times. Each image
is opened with the real store (`judge`): its content must be, row for row, that of the last acknowledged commit or of
the one under way; SQLite finds no damage; what a starting gateway does is done; all books hold; one more turn is
taken, and is there when the ledger is opened again. The mark beside the ledger is part of the image: no image is taken
for a copy that was put back, and an older ledger in its place is (Law 14).

`--without-sync` is the control: the same proof over a store that does not wait for the disk must find losses. Each run
of the proof makes a few points of it, too, and fails where none is found.

Reading order: disk, recorder, workload, images, judge, main.
"""
