-- name: about_set
-- record which ledger the index belongs to
INSERT INTO about(one, ledger) VALUES(1, :ledger)

-- name: about_get
-- the ledger that the index belongs to
SELECT ledger FROM about WHERE one = 1

-- name: session_get
-- the rev up to which one session is indexed
SELECT rev FROM session WHERE id = :id

-- name: session_set
-- set the rev up to which a session is indexed
INSERT INTO session(id, key, rev) VALUES(:id, :key, :rev) ON CONFLICT(id) DO UPDATE SET key = :key, rev = :rev

-- name: session_revs
-- a page of sessions, each with the rev up to which it is indexed
SELECT id, rev FROM session WHERE id > :after ORDER BY id LIMIT :limit

-- name: session_drop
-- remove a session
DELETE FROM session WHERE id = :id

-- name: doc_id
-- the id of an entry that can be found
SELECT id FROM doc WHERE session = :session AND seq = :seq

-- name: doc_set
-- an entry that can be found
INSERT INTO doc(id, session, seq, at, role) VALUES(:id, :session, :seq, :at, :role)
ON CONFLICT(id) DO UPDATE SET session = :session, seq = :seq, at = :at, role = :role

-- name: doc_drop
-- an entry that cannot be found any more
DELETE FROM doc WHERE id = :id

-- name: docs_upto
-- a page of a session's entries up to a seq
SELECT id FROM doc WHERE session = :session AND seq <= :upto LIMIT :limit

-- name: word_set
-- index the words of an entry; FTS5 replaces the old words by itself (contentless_delete)
INSERT OR REPLACE INTO word(rowid, text) VALUES(:id, :text)

-- name: word_drop
-- remove the words of an entry
DELETE FROM word WHERE rowid = :id

-- name: word_tidy
-- merge the index's segments, so that removed words leave the file, too
INSERT INTO word(word) VALUES('optimize')

-- name: find_newest
-- newest first; a page begins below the (at, id) of the previous page's last entry
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
