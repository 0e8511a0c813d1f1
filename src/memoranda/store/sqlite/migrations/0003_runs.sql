-- Which run an event of the ledger belongs to; none of those before it did.

ALTER TABLE events ADD COLUMN run TEXT;

CREATE INDEX events_by_run ON events (tenant, run, position) WHERE run IS NOT NULL;
