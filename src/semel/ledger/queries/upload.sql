-- name: upload_put
-- a file was uploaded whole; the same content again gets a new name and a longer life
INSERT INTO upload(blob, name, mime, expires) VALUES(:blob, :name, :mime, :expires)
ON CONFLICT(blob) DO UPDATE SET name = :name, mime = :mime, expires = :expires

-- name: upload_drop
-- a message took the file, or its time is over
DELETE FROM upload WHERE blob = :blob

-- name: upload_find
-- a file that a message may take: it was uploaded, or an entry holds it
SELECT b.id, b.size, coalesce(u.name, b.name) AS name, coalesce(u.mime, b.mime) AS mime
FROM blob b LEFT JOIN upload u ON u.blob = b.id
WHERE b.id = :id AND b.gone = 0 AND (u.blob IS NOT NULL OR EXISTS (SELECT 1 FROM holding h WHERE h.blob = b.id))

-- name: uploads_expired
-- uploads that no message has taken in time
SELECT blob FROM upload WHERE expires <= :now ORDER BY expires LIMIT :limit

-- name: uploads_waiting
-- how many uploads wait for a message, and their size; their number is limited (semel.gateway.inbound.uploads)
SELECT count(*), coalesce(sum(b.size), 0) FROM upload u JOIN blob b ON b.id = u.blob WHERE u.expires > :now
