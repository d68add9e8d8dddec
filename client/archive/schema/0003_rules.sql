-- What the next record of a chain is judged by, and whether people have accepted that it does not follow its table's.

ALTER TABLE chains ADD COLUMN keys text NOT NULL DEFAULT '';
ALTER TABLE chains ADD COLUMN kid text NOT NULL DEFAULT '';
ALTER TABLE chains ADD COLUMN rules text NOT NULL DEFAULT '';
ALTER TABLE chains ADD COLUMN misfits integer NOT NULL DEFAULT 0;
ALTER TABLE chains ADD COLUMN accepted integer NOT NULL DEFAULT 0;
