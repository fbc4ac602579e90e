-- name: about_set
-- whose index this is
INSERT INTO about(one, ledger) VALUES(1, :ledger)

-- name: about_get
-- whose index this is
SELECT ledger FROM about WHERE one = 1

-- name: session_get
-- how far one session is in the index
SELECT rev FROM session WHERE id = :id

-- name: session_set
-- every change up to a rev is in the index
INSERT INTO session(id, key, rev) VALUES(:id, :key, :rev) ON CONFLICT(id) DO UPDATE SET key = :key, rev = :rev

-- name: session_revs
-- how far sessions are, a page of them
SELECT id, rev FROM session WHERE id > :after ORDER BY id LIMIT :limit

-- name: session_drop
-- a session that is no more
DELETE FROM session WHERE id = :id

-- name: doc_id
-- an entry's row, if it can be found
SELECT id FROM doc WHERE session = :session AND seq = :seq

-- name: doc_set
-- an entry that can be found
INSERT INTO doc(id, session, seq, at, role) VALUES(:id, :session, :seq, :at, :role)
ON CONFLICT(id) DO UPDATE SET session = :session, seq = :seq, at = :at, role = :role

-- name: doc_drop
-- an entry that cannot be found any more
DELETE FROM doc WHERE id = :id

-- name: docs_upto
-- what can be found of a session's beginning, a page of it
SELECT id FROM doc WHERE session = :session AND seq <= :upto LIMIT :limit

-- name: word_set
-- the words of an entry; a contentless table replaces them by its own notes
INSERT OR REPLACE INTO word(rowid, text) VALUES(:id, :text)

-- name: word_drop
-- none of its words any more
DELETE FROM word WHERE rowid = :id

-- name: word_tidy
-- what was dropped leaves the file, too
INSERT INTO word(word) VALUES('optimize')

-- name: find_newest
-- newest first; a page goes on below the last one's (at, id)
-- sorts: what one query finds
SELECT d.id, d.session, d.seq, d.at FROM word w JOIN doc d ON d.id = w.rowid
WHERE w.word MATCH :asked AND (:role IS NULL OR d.role = :role)
  AND (:since IS NULL OR d.at >= :since) AND (:until IS NULL OR d.at < :until)
  AND (:session IS NULL OR d.session IN (SELECT id FROM session WHERE key GLOB :session))
  AND (d.at, d.id) < (:at, :id)
ORDER BY d.at DESC, d.id DESC LIMIT :limit

-- name: find_best
-- best first (bm25), the newest of equals first
-- sorts: what one query finds
SELECT d.id, d.session, d.seq, d.at FROM word w JOIN doc d ON d.id = w.rowid
WHERE w.word MATCH :asked AND (:role IS NULL OR d.role = :role)
  AND (:since IS NULL OR d.at >= :since) AND (:until IS NULL OR d.at < :until)
  AND (:session IS NULL OR d.session IN (SELECT id FROM session WHERE key GLOB :session))
ORDER BY w.rank, d.id DESC LIMIT :limit OFFSET :skip

-- name: count_docs
-- how much can be found; scans: for people who ask, not with each message
SELECT count(*) AS n FROM doc
