-- Records that people have given up for lost: the chain counts as whole again behind them, as far as it is so from there.

CREATE TABLE losses (
    chain text NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    accepted_at timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (chain, first_seq)
);
