-- The nodes of the configuration, by the source that their events have (Law 1).

-- name: node_get
-- the node whose events have this source
SELECT source FROM node WHERE source = :source

-- name: node_by_token
-- the node that has this token, or had it when it was configured last
SELECT source FROM node WHERE token = :token

-- name: nodes_by_name
-- the nodes that were called so when they were configured last
SELECT source FROM node WHERE name = :name

-- name: node_put
-- its name and token now
INSERT INTO node(source, name, token, at) VALUES(:source, :name, :token, :at)
ON CONFLICT(source) DO UPDATE SET name = :name, token = :token, at = :at
