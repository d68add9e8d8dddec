-- What is archived, as in PostgreSQL, without partitions. Times and dates are text, in UTC to the microsecond;
-- what is `jsonb` there is JSON as text here.

CREATE TABLE chains (
    chain text PRIMARY KEY,
    site text NOT NULL,
    table_name text NOT NULL,
    begins integer NOT NULL DEFAULT 1,
    complete_to integer NOT NULL DEFAULT 0,
    digest text NOT NULL,
    heard integer NOT NULL DEFAULT 0,
    broken text NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE links (
    chain text NOT NULL,
    seq integer NOT NULL,
    digest text NOT NULL,
    prev text NOT NULL,
    utc text NOT NULL,
    PRIMARY KEY (chain, seq)
) STRICT;

CREATE TABLE chain_keys (
    chain text NOT NULL,
    seq integer NOT NULL,
    x text NOT NULL,
    PRIMARY KEY (chain, seq)
) STRICT;

CREATE TABLE contradictions (
    chain text NOT NULL,
    seq integer NOT NULL,
    digest text NOT NULL,
    envelope blob NOT NULL,
    PRIMARY KEY (chain, seq, digest)
) STRICT;

CREATE TABLE records (
    chain text NOT NULL,
    seq integer NOT NULL,
    utc text NOT NULL,
    site text NOT NULL,
    node text NOT NULL,
    table_name text NOT NULL,
    kind text NOT NULL,
    round integer NOT NULL,
    envelope blob NOT NULL,
    PRIMARY KEY (chain, seq)
) STRICT;

CREATE TABLE sessions (
    chain text NOT NULL,
    seq integer NOT NULL,
    utc text NOT NULL,
    site text NOT NULL,
    table_name text NOT NULL,
    event text NOT NULL,
    by_whom text NOT NULL,
    gaming_date text NOT NULL,
    opened_at text NOT NULL,
    closed_at text,
    game text NOT NULL,
    variant text NOT NULL,
    zero_rule text,
    rulebook text NOT NULL,
    rulebook_digest text NOT NULL,
    profile text NOT NULL,
    profile_digest text NOT NULL,
    minimum integer NOT NULL,
    maximum integer NOT NULL,
    currency text NOT NULL,
    checks text,
    PRIMARY KEY (chain, seq)
) STRICT;

CREATE TABLE rounds (
    chain text NOT NULL,
    seq integer NOT NULL,
    utc text NOT NULL,
    site text NOT NULL,
    table_name text NOT NULL,
    round integer NOT NULL,
    game_ref text NOT NULL,
    PRIMARY KEY (chain, seq)
) STRICT;

CREATE TABLE results (
    chain text NOT NULL,
    seq integer NOT NULL,
    utc text NOT NULL,
    site text NOT NULL,
    table_name text NOT NULL,
    round integer NOT NULL,
    gaming_date text NOT NULL,
    game text NOT NULL,
    variant text NOT NULL,
    rulebook_digest text NOT NULL,
    outcome text NOT NULL,
    odds_table integer,
    minimum integer NOT NULL,
    maximum integer NOT NULL,
    currency text NOT NULL,
    mode text NOT NULL,
    reason text,
    approvals text,
    PRIMARY KEY (chain, seq)
) STRICT;

CREATE TABLE voids (
    chain text NOT NULL,
    seq integer NOT NULL,
    utc text NOT NULL,
    site text NOT NULL,
    table_name text NOT NULL,
    round integer NOT NULL,
    gaming_date text NOT NULL,
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
    PRIMARY KEY (chain, seq)
) STRICT;

CREATE TABLE corrections (
    chain text NOT NULL,
    seq integer NOT NULL,
    utc text NOT NULL,
    site text NOT NULL,
    table_name text NOT NULL,
    round integer NOT NULL,
    gaming_date text NOT NULL,
    corrects integer NOT NULL,
    id text NOT NULL,
    element text NOT NULL,
    kind_before text NOT NULL,
    outcome_before text,
    rule_before text,
    kind_after text NOT NULL,
    outcome_after text,
    rule_after text,
    stake_policy_after text,
    reason text NOT NULL,
    approvals text NOT NULL,
    PRIMARY KEY (chain, seq)
) STRICT;

CREATE TABLE incidents (
    chain text NOT NULL,
    seq integer NOT NULL,
    utc text NOT NULL,
    site text NOT NULL,
    table_name text NOT NULL,
    round integer NOT NULL,
    kind text NOT NULL,
    what text NOT NULL,
    device text,
    text text NOT NULL,
    details text NOT NULL,
    PRIMARY KEY (chain, seq)
) STRICT;

CREATE INDEX results_of_day ON results (table_name, gaming_date);
CREATE INDEX voids_of_day ON voids (table_name, gaming_date);
CREATE INDEX corrections_of_round ON corrections (chain, round);
