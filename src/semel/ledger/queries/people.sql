-- name: person_put
-- an account and whose it is; what was known of it before is replaced
INSERT INTO person(channel, account, name, role, origin, at) VALUES(:channel, :account, :name, :role, :origin, :at)
ON CONFLICT(channel, account) DO UPDATE SET name = excluded.name, role = excluded.role, origin = excluded.origin, at = excluded.at

-- name: person_get
-- whose account this is
SELECT {PersonRow} FROM person WHERE channel = :channel AND account = :account

-- name: people_all
-- every account of every person, a page at a time
SELECT {PersonRow} FROM person WHERE id > :after ORDER BY id LIMIT :limit

-- name: people_named
-- the accounts of one person
SELECT {PersonRow} FROM person WHERE name = :name ORDER BY id

-- name: person_role
-- a person has one role, whatever account they use
UPDATE person SET role = :role WHERE name = :name

-- name: person_drop
-- an account is known no more
DELETE FROM person WHERE channel = :channel AND account = :account

-- name: pairing_add
-- the owner was shown a code
INSERT INTO pairing(channel, salt, digest, name, role, state, at, expires)
VALUES(:channel, :salt, :digest, :name, :role, 'open', :at, :expires) RETURNING id

-- name: pairings_open
-- codes that nobody used yet
-- scans: one row per open code; each lives ten minutes
SELECT id, channel, salt, digest, name, role, at, expires FROM pairing INDEXED BY pairing_open WHERE state = 'open'

-- name: pairing_get
-- one code and what became of it
SELECT {PairingRow} FROM pairing WHERE id = :id

-- name: pairing_end
-- a code is used by an account, or was void before anybody used it; once
UPDATE pairing SET state = :state, account = :account, key = :key, name = coalesce(:name, name) WHERE id = :id AND state = 'open'

-- name: pairing_by_key
-- the code that this message redeemed, if it did
SELECT {PairingRow} FROM pairing
WHERE channel = :channel AND account = :account AND key = :key

-- name: pairings_last
-- the newest codes and what became of them
SELECT {PairingRow} FROM pairing WHERE id < :before ORDER BY id DESC LIMIT :limit

-- name: direct_put
-- where a person of ours was met last, with nobody else there
INSERT INTO direct(channel, account, address, at) VALUES(:channel, :account, :address, :at)
ON CONFLICT(channel, account) DO UPDATE SET address = excluded.address, at = excluded.at

-- name: direct_get
-- where a person of ours was met last
SELECT address, at FROM direct WHERE channel = :channel AND account = :account

-- name: direct_drop
-- whose account is known no more is met nowhere
DELETE FROM direct WHERE channel = :channel AND account = :account

-- name: direct_elsewhere
-- the direct conversations, on other channels, of the person whose direct conversation this is; newest first
-- sorts: a person's own accounts, a handful
SELECT o.channel, o.address FROM direct d
JOIN person p ON p.channel = d.channel AND p.account = d.account
JOIN person q ON q.name = p.name AND q.channel <> p.channel
JOIN direct o ON o.channel = q.channel AND o.account = q.account
WHERE d.channel = :channel AND d.address = :address ORDER BY o.at DESC
