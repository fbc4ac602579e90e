-- name: blob_piece_add
-- a piece of a file's content; a file with this id has this content, so one that is there already is the same
INSERT INTO blob_piece(blob, n, data) VALUES(:id, :n, :content) ON CONFLICT DO NOTHING

-- name: blob_pieces
-- some pieces of a file, in order
SELECT data FROM blob_piece WHERE blob = :id AND n >= :first AND n < :end ORDER BY n

-- name: blob_whole
-- the size of a file whose last piece is there, so that all are
SELECT b.size FROM blob b JOIN blob_piece p ON p.blob = b.id AND p.n = (b.size - 1) / :piece WHERE b.id = :id

-- name: blobs_lacking
-- a page of the files that a message needs and whose content is neither here nor in object storage
SELECT b.id FROM blob b WHERE b.id > :after AND b.gone = 0 AND b.kept = 0
  AND NOT EXISTS (SELECT 1 FROM blob_piece p WHERE p.blob = b.id AND p.n = (b.size - 1) / :piece)
  AND NOT EXISTS (SELECT 1 FROM blob_piece p WHERE p.blob = b.id AND p.n < 0 AND p.data = :stored)
ORDER BY b.id LIMIT :limit
