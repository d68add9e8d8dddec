-- What is archived. A record is there once, by chain and number: `links` sees to it. The tables that grow
-- are partitioned by the month of the record's time; partitions are made when their first record comes.
-- Times are UTC to the microsecond; the nanoseconds are in the envelope.

CREATE TABLE chains (
    chain text PRIMARY KEY,
    site text NOT NULL,
    table_name text NOT NULL,
    begins bigint NOT NULL DEFAULT 1,
    complete_to bigint NOT NULL DEFAULT 0,
    digest text NOT NULL,
    heard bigint NOT NULL DEFAULT 0,
    broken text NOT NULL DEFAULT ''
);

CREATE TABLE links (
    chain text NOT NULL,
    seq bigint NOT NULL,
    digest text NOT NULL,
    prev text NOT NULL,
    utc timestamptz NOT NULL,
    PRIMARY KEY (chain, seq)
);

CREATE TABLE chain_keys (
    chain text NOT NULL,
    seq bigint NOT NULL,
    x text NOT NULL,
    PRIMARY KEY (chain, seq)
);

CREATE TABLE contradictions (
    chain text NOT NULL,
    seq bigint NOT NULL,
    digest text NOT NULL,
    envelope bytea NOT NULL,
    PRIMARY KEY (chain, seq, digest)
);

CREATE TABLE records (
    chain text NOT NULL,
    seq bigint NOT NULL,
    utc timestamptz NOT NULL,
    site text NOT NULL,
    node text NOT NULL,
    table_name text NOT NULL,
    kind text NOT NULL,
    round bigint NOT NULL,
    envelope bytea NOT NULL,
    PRIMARY KEY (chain, seq, utc)
) PARTITION BY RANGE (utc);

CREATE TABLE sessions (
    chain text NOT NULL,
    seq bigint NOT NULL,
    utc timestamptz NOT NULL,
    site text NOT NULL,
    table_name text NOT NULL,
    event text NOT NULL,
    by_whom text NOT NULL,
    gaming_date date NOT NULL,
    opened_at timestamptz NOT NULL,
    closed_at timestamptz,
    game text NOT NULL,
    variant text NOT NULL,
    zero_rule text,
    rulebook text NOT NULL,
    rulebook_digest text NOT NULL,
    profile text NOT NULL,
    profile_digest text NOT NULL,
    minimum bigint NOT NULL,
    maximum bigint NOT NULL,
    currency text NOT NULL,
    checks jsonb,
    PRIMARY KEY (chain, seq)
);

CREATE TABLE rounds (
    chain text NOT NULL,
    seq bigint NOT NULL,
    utc timestamptz NOT NULL,
    site text NOT NULL,
    table_name text NOT NULL,
    round bigint NOT NULL,
    game_ref text NOT NULL,
    PRIMARY KEY (chain, seq, utc)
) PARTITION BY RANGE (utc);

CREATE TABLE results (
    chain text NOT NULL,
    seq bigint NOT NULL,
    utc timestamptz NOT NULL,
    site text NOT NULL,
    table_name text NOT NULL,
    round bigint NOT NULL,
    gaming_date date NOT NULL,
    game text NOT NULL,
    variant text NOT NULL,
    rulebook_digest text NOT NULL,
    outcome jsonb NOT NULL,
    odds_table bigint,
    minimum bigint NOT NULL,
    maximum bigint NOT NULL,
    currency text NOT NULL,
    mode text NOT NULL,
    reason text,
    approvals jsonb,
    PRIMARY KEY (chain, seq, utc)
) PARTITION BY RANGE (utc);

CREATE TABLE voids (
    chain text NOT NULL,
    seq bigint NOT NULL,
    utc timestamptz NOT NULL,
    site text NOT NULL,
    table_name text NOT NULL,
    round bigint NOT NULL,
    gaming_date date NOT NULL,
    game text NOT NULL,
    variant text NOT NULL,
    rulebook_digest text NOT NULL,
    rule text NOT NULL,
    clause text NOT NULL,
    text text NOT NULL,
    stake_policy text NOT NULL,
    declared_by text,
    role text,
    judged_by text,
    judged_role text,
    PRIMARY KEY (chain, seq, utc)
) PARTITION BY RANGE (utc);

CREATE TABLE corrections (
    chain text NOT NULL,
    seq bigint NOT NULL,
    utc timestamptz NOT NULL,
    site text NOT NULL,
    table_name text NOT NULL,
    round bigint NOT NULL,
    gaming_date date NOT NULL,
    corrects bigint NOT NULL,
    id text NOT NULL,
    element text NOT NULL,
    kind_before text NOT NULL,
    outcome_before jsonb,
    rule_before text,
    kind_after text NOT NULL,
    outcome_after jsonb,
    rule_after text,
    stake_policy_after text,
    reason text NOT NULL,
    approvals jsonb NOT NULL,
    PRIMARY KEY (chain, seq)
);

CREATE TABLE incidents (
    chain text NOT NULL,
    seq bigint NOT NULL,
    utc timestamptz NOT NULL,
    site text NOT NULL,
    table_name text NOT NULL,
    round bigint NOT NULL,
    kind text NOT NULL,
    what text NOT NULL,
    device text,
    text text NOT NULL,
    details jsonb NOT NULL,
    PRIMARY KEY (chain, seq, utc)
) PARTITION BY RANGE (utc);

CREATE INDEX results_of_day ON results (table_name, gaming_date);
CREATE INDEX voids_of_day ON voids (table_name, gaming_date);
CREATE INDEX corrections_of_round ON corrections (chain, round);
