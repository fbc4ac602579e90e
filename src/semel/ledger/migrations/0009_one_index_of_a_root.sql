-- A claim with a text was written to two indexes that begin with its root: one finds equal texts, and all of a root.
DROP INDEX claim_text;
DROP INDEX claim_root;
CREATE INDEX claim_root ON claim(root, dest, digest) WHERE root IS NOT NULL;
