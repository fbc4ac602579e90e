-- A person may upload a file before the message that names it. A kill in between must lose neither.

-- Uploaded files that no message has taken yet. The content of each is whole and durable before its row is here.
CREATE TABLE upload(
  blob TEXT PRIMARY KEY REFERENCES blob(id),
  name TEXT NOT NULL,              -- as it was uploaded last
  mime TEXT NOT NULL,              -- by its content
  expires INTEGER NOT NULL         -- when it is removed, if no message has taken it by then
) STRICT, WITHOUT ROWID;
CREATE INDEX upload_expires ON upload(expires);
