-- name: person_put
-- add or replace an account of a person
INSERT INTO person(channel, account, name, role, origin, at) VALUES(:channel, :account, :name, :role, :origin, :at)
ON CONFLICT(channel, account) DO UPDATE SET name = excluded.name, role = excluded.role, origin = excluded.origin, at = excluded.at

-- name: person_get
-- one account
SELECT {PersonRow} FROM person WHERE channel = :channel AND account = :account

-- name: people_all
-- a page of all accounts
SELECT {PersonRow} FROM person WHERE id > :after ORDER BY id LIMIT :limit

-- name: people_named
-- the accounts of one person
SELECT {PersonRow} FROM person WHERE name = :name ORDER BY id

-- name: person_role
-- set the role of a person, in all their accounts
UPDATE person SET role = :role WHERE name = :name

-- name: person_drop
-- remove an account
DELETE FROM person WHERE channel = :channel AND account = :account

-- name: pairing_add
-- a pairing code that the owner was shown
INSERT INTO pairing(channel, salt, digest, name, role, state, at, expires)
VALUES(:channel, :salt, :digest, :name, :role, 'open', :at, :expires) RETURNING id

-- name: pairings_open
-- codes that were neither used nor voided
-- scans: one row per open code; each lives ten minutes
SELECT id, channel, salt, digest, name, role, at, expires FROM pairing INDEXED BY pairing_open WHERE state = 'open'

-- name: pairing_get
-- one code and its state
SELECT {PairingRow} FROM pairing WHERE id = :id

-- name: pairing_end
-- an open code was used by an account, or voided
UPDATE pairing SET state = :state, account = :account, key = :key, name = coalesce(:name, name) WHERE id = :id AND state = 'open'

-- name: pairing_by_key
-- the code that was redeemed by this message
SELECT {PairingRow} FROM pairing
WHERE channel = :channel AND account = :account AND key = :key

-- name: pairings_last
-- the newest codes, in any state
SELECT {PairingRow} FROM pairing WHERE id < :before ORDER BY id DESC LIMIT :limit

-- name: direct_put
-- set the direct chat in which a known person last wrote
INSERT INTO direct(channel, account, address, at) VALUES(:channel, :account, :address, :at)
ON CONFLICT(channel, account) DO UPDATE SET address = excluded.address, at = excluded.at

-- name: direct_get
-- the direct chat in which a known person last wrote
SELECT address, at FROM direct WHERE channel = :channel AND account = :account

-- name: direct_newer
-- whether this person wrote in a direct chat of another of their accounts after this time
SELECT 1 FROM person p JOIN person q ON q.name = p.name
JOIN direct o ON o.channel = q.channel AND o.account = q.account
WHERE p.channel = :channel AND p.account = :account AND o.at > :at LIMIT 1

-- name: direct_drop
-- forget the direct chat of an account that was removed
DELETE FROM direct WHERE channel = :channel AND account = :account

-- name: direct_people
-- the known people whose direct chat this is
SELECT {PersonRow p} FROM direct d
JOIN person p ON p.channel = d.channel AND p.account = d.account
WHERE d.channel = :channel AND d.address = :address

-- name: direct_elsewhere
-- the direct chats on other channels of the person whose direct chat this is; newest first
-- sorts: a person's own accounts, a handful
SELECT o.channel, o.address FROM direct d
JOIN person p ON p.channel = d.channel AND p.account = d.account
JOIN person q ON q.name = p.name AND q.channel <> p.channel
JOIN direct o ON o.channel = q.channel AND o.account = q.account
WHERE d.channel = :channel AND d.address = :address ORDER BY o.at DESC
