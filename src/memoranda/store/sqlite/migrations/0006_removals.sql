-- The entries that ended or were removed, by the marks that their shelf got for it; `before` is its mark until then, so
-- that a gap is seen. Only the last ones are kept.
CREATE TABLE removals (
    shelf INTEGER NOT NULL,
    mark INTEGER NOT NULL,
    before INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (shelf, mark)
) STRICT, WITHOUT ROWID;

-- Indexes of large shelves that a host made and published for others, in pieces. `subject` is the outermost part of the
-- scope. Processes that share a file share a host, so they publish nothing here.
CREATE TABLE segments (
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    name TEXT NOT NULL,
    piece INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (tenant, subject, name, piece)
) STRICT;
