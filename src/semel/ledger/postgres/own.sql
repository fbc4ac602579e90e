CREATE TABLE schema_version(version bigint NOT NULL);
INSERT INTO schema_version(version) VALUES(0);
CREATE TABLE worker(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, serial bigint NOT NULL)
