-- name: object_add
-- the content of a file is about to be put into object storage, under a name of its own
INSERT INTO blob_piece(blob, n, data) VALUES(:id, :n, :state)

-- name: object_stored
-- the objects that have the content of a file, with its size
SELECT p.n, b.size FROM blob b JOIN blob_piece p ON p.blob = b.id AND p.n < 0 AND p.data = :stored WHERE b.id = :id

-- name: object_keep
-- an object has the whole content of its file
UPDATE blob_piece SET data = :stored WHERE blob = :id AND n = :n AND data = :coming

-- name: objects_of_gone
-- the objects of a file that may be removed, with its size
SELECT p.n, b.size FROM blob b JOIN blob_piece p ON p.blob = b.id AND p.n < 0
WHERE b.id = :id AND b.gone = 1 AND b.kept = 0

-- name: objects_leave
-- they are about to be removed, so nobody relies on them any more
UPDATE blob_piece SET data = :going WHERE blob = :id AND n < 0

-- name: object_drop
-- an object was removed
DELETE FROM blob_piece WHERE blob = :id AND n = :n AND data = :going

-- name: object_any
-- any object of a file
SELECT n FROM blob_piece WHERE blob = :id AND n < 0 LIMIT 1

-- name: blob_pieces_drop
-- the content of a file is in object storage, and not in the ledger any more
DELETE FROM blob_piece WHERE blob = :id AND n >= 0

-- name: blobs_outside
-- a page of the files that a message needs and whose content is not in object storage
SELECT b.id FROM blob b WHERE b.id > :after AND b.gone = 0 AND b.kept = 0
  AND NOT EXISTS (SELECT 1 FROM blob_piece p WHERE p.blob = b.id AND p.n < 0 AND p.data = :stored)
ORDER BY b.id LIMIT :limit

-- name: blob_ids
-- a page of all stored files
SELECT id FROM blob WHERE id > :after ORDER BY id LIMIT :limit

-- name: objects_between
-- the objects of some files, with the size of their file
SELECT p.blob, p.n, b.size, p.data = :stored AND b.gone = 0 AS is_needed
FROM blob b JOIN blob_piece p ON p.blob = b.id AND p.n < 0 WHERE b.id > :after AND b.id <= :last
