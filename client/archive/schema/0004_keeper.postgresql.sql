-- Which instance looks after gaps, and until when: a lease, for behind a pooler no session is one's own.
CREATE TABLE keeper (
    place integer PRIMARY KEY CHECK (place = 1),
    holder text NOT NULL,
    until timestamptz NOT NULL
);
