CREATE TABLE schema_version(version bigint NOT NULL);
INSERT INTO schema_version(version) VALUES(0);
CREATE TABLE worker(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
CREATE TABLE mark(worker bigint PRIMARY KEY REFERENCES worker(id) ON DELETE CASCADE, serial bigint NOT NULL)
