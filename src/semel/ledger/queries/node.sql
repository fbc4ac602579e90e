-- Nodes that were configured, each with the source of its events (Law 1).

-- name: node_get
-- the source of a node, if there is one with this source
SELECT source FROM node WHERE source = :source

-- name: node_by_token
-- the source of the node that had this token when it was last configured
SELECT source FROM node WHERE token = :token

-- name: nodes_by_name
-- the sources of the nodes that had this name when they were last configured
SELECT source FROM node WHERE name = :name

-- name: node_put
-- record a node's name and token
INSERT INTO node(source, name, token, at) VALUES(:source, :name, :token, :at)
ON CONFLICT(source) DO UPDATE SET name = :name, token = :token, at = :at
