-- The entries that ended or were removed, by the marks that their shelf got for it; `before` is its mark until then, so
-- that a gap is seen. Only the last ones are kept.
CREATE TABLE removals (
    shelf INTEGER NOT NULL,
    mark INTEGER NOT NULL,
    before INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (shelf, mark)
) STRICT, WITHOUT ROWID;
