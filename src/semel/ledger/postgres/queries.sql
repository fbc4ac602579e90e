-- Second texts, where one text cannot serve both engines.

-- name: book_files
-- a list in JSON as rows: json_each in SQLite, jsonb_array_elements in PostgreSQL
SELECT h.session, h.seq, h.blob, b.gone FROM holding h LEFT JOIN blob b ON b.id = h.blob
LEFT JOIN entry e ON e.session = h.session AND e.seq = h.seq
WHERE b.gone = 1 OR (b.id IS NULL AND coalesce(e.more, '{}')::jsonb ->> 'imported' IS NULL)
UNION ALL
SELECT e.session, e.seq, f.file ->> 'id', NULL FROM entry e
CROSS JOIN LATERAL jsonb_array_elements(e.more::jsonb -> 'files') f(file)
LEFT JOIN holding h ON h.session = e.session AND h.seq = e.seq AND h.blob = f.file ->> 'id'
WHERE e.more LIKE '%"files"%' AND jsonb_typeof(e.more::jsonb -> 'files') = 'array'
  AND f.file ->> 'id' IS NOT NULL AND h.blob IS NULL
UNION ALL
SELECT NULL, NULL, u.blob, b.gone FROM upload u LEFT JOIN blob b ON b.id = u.blob WHERE b.id IS NULL OR b.gone = 1

-- name: book_numbers
-- the length of a list in JSON: the function takes a path in SQLite, and none in PostgreSQL
SELECT i.id AS item, i.session, i.body::jsonb ->> 'first' AS first FROM item i JOIN session s ON s.id = i.session
LEFT JOIN item o ON o.session = i.session AND o.kind = 'permission' AND o.id = (
  SELECT max(b.id) FROM item b
  WHERE b.session = i.session AND b.kind = 'permission' AND b.id < i.id AND b.body::jsonb ->> 'first' IS NOT NULL)
WHERE i.kind = 'permission' AND i.body::jsonb ->> 'first' IS NOT NULL AND (
  CAST(i.body::jsonb ->> 'first' AS BIGINT) > s.numbers
  OR CAST(i.body::jsonb ->> 'first' AS BIGINT) + jsonb_array_length(i.body::jsonb -> 'options') - 1 > s.numbers
  OR CAST(o.body::jsonb ->> 'first' AS BIGINT) + 1 > CAST(i.body::jsonb ->> 'first' AS BIGINT)
  OR CAST(o.body::jsonb ->> 'first' AS BIGINT) + jsonb_array_length(o.body::jsonb -> 'options')
    > CAST(i.body::jsonb ->> 'first' AS BIGINT))
