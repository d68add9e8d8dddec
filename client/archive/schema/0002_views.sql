-- What a casino asks. A round counts as it stands now: its last correction is applied, its first record stays.

CREATE VIEW last_corrections AS
SELECT c.* FROM corrections c
WHERE NOT EXISTS (
    SELECT 1 FROM corrections n WHERE n.chain = c.chain AND n.round = c.round AND n.seq > c.seq
);

-- Every final record, as it was signed.
CREATE VIEW finals AS
SELECT chain, seq, utc, site, table_name, round, gaming_date, game, variant, 'result' AS kind, outcome,
    NULL AS rule, NULL AS declared_by, NULL AS role, NULL AS judged_role, mode
FROM results
UNION ALL
SELECT chain, seq, utc, site, table_name, round, gaming_date, game, variant, 'void', NULL,
    rule, declared_by, role, judged_role, NULL
FROM voids;

-- Every ended round, corrections applied, with the session that it was played in.
CREATE VIEW ended_rounds AS
SELECT f.site, f.table_name, f.chain, f.round, f.seq, f.utc, f.gaming_date, f.game, f.variant,
    coalesce(c.kind_after, f.kind) AS kind,
    CASE WHEN c.seq IS NULL THEN f.outcome ELSE c.outcome_after END AS outcome,
    CASE WHEN c.seq IS NULL THEN f.rule ELSE c.rule_after END AS rule,
    f.declared_by, f.role, f.judged_role, f.mode,
    f.kind AS kind_first, f.outcome AS outcome_first, f.rule AS rule_first,
    c.seq AS corrected_by,
    (SELECT max(s.seq) FROM sessions s WHERE s.chain = f.chain AND s.seq < f.seq) AS session_seq
FROM finals f
LEFT JOIN last_corrections c ON c.chain = f.chain AND c.round = f.round;

-- A table's evening, round by round.
CREATE VIEW evening_rounds AS
SELECT e.*, s.opened_at
FROM ended_rounds e
LEFT JOIN sessions s ON s.chain = e.chain AND s.seq = e.session_seq;

-- A table's evening as a whole. One that went on in another chain, after a lost key, is one evening.
CREATE VIEW evenings AS
SELECT s.site, s.table_name, s.opened_at, s.closed_at, s.gaming_date, s.game, s.variant, s.rulebook,
    s.rulebook_digest, s.profile, s.profile_digest, s.minimum, s.maximum, s.currency, s.checks, s.resumed,
    coalesce(r.ended, 0) AS ended, coalesce(r.results, 0) AS results, coalesce(r.voids, 0) AS voids,
    coalesce(r.corrected, 0) AS corrected, coalesce(r.manual, 0) AS manual
FROM (
    SELECT site, table_name, opened_at, max(closed_at) AS closed_at, min(gaming_date) AS gaming_date,
        max(game) AS game, max(variant) AS variant, max(rulebook) AS rulebook,
        max(rulebook_digest) AS rulebook_digest, max(profile) AS profile,
        max(profile_digest) AS profile_digest, max(minimum) AS minimum, max(maximum) AS maximum,
        max(currency) AS currency, max(CAST(checks AS text)) AS checks,
        count(CASE WHEN event = 'resumed' THEN 1 END) AS resumed
    FROM sessions GROUP BY site, table_name, opened_at
) s
LEFT JOIN (
    SELECT site, table_name, opened_at, count(*) AS ended,
        count(CASE WHEN kind = 'result' THEN 1 END) AS results,
        count(CASE WHEN kind = 'void' THEN 1 END) AS voids,
        count(corrected_by) AS corrected,
        count(CASE WHEN mode = 'manual' THEN 1 END) AS manual
    FROM evening_rounds GROUP BY site, table_name, opened_at
) r ON r.site = s.site AND r.table_name = s.table_name AND r.opened_at = s.opened_at;

-- Ended rounds of a table and gaming date: what rates are measured against.
CREATE VIEW ended_by_gaming_date AS
SELECT site, table_name, game, gaming_date, count(*) AS ended,
    count(CASE WHEN kind = 'result' THEN 1 END) AS results,
    count(CASE WHEN kind = 'void' THEN 1 END) AS voids,
    count(CASE WHEN mode = 'manual' THEN 1 END) AS manual,
    count(corrected_by) AS corrected
FROM ended_rounds GROUP BY site, table_name, game, gaming_date;

-- Voids by reason and by the role of who declared and who judged, in parts per million of the ended rounds.
CREATE VIEW void_rates AS
SELECT v.site, v.table_name, v.game, v.gaming_date, v.rule, v.role, v.judged_role, v.voids, e.ended,
    v.voids * 1000000 / e.ended AS rate_ppm
FROM (
    SELECT site, table_name, game, gaming_date, rule,
        CASE WHEN corrected_by IS NOT NULL THEN 'two-persons' ELSE coalesce(role, 'nobody') END AS role,
        coalesce(judged_role, '') AS judged_role, count(*) AS voids
    FROM ended_rounds WHERE kind = 'void'
    GROUP BY 1, 2, 3, 4, 5, 6, 7
) v
JOIN ended_by_gaming_date e
    ON e.site = v.site AND e.table_name = v.table_name AND e.game = v.game AND e.gaming_date = v.gaming_date;

-- How often people entered what no device could read, in parts per million of the ended rounds.
CREATE VIEW manual_rates AS
SELECT site, table_name, game, gaming_date, manual, ended, manual * 1000000 / ended AS rate_ppm
FROM ended_by_gaming_date;

-- How often each outcome came, by gaming date.
CREATE VIEW results_by_gaming_date AS
SELECT site, table_name, game, gaming_date, CAST(outcome AS text) AS outcome, count(*) AS times
FROM ended_rounds WHERE kind = 'result'
GROUP BY site, table_name, game, gaming_date, CAST(outcome AS text);

-- Results in their order, for jackpots and side games: voids are skipped, corrections stand at the place of
-- what they correct. Only what is complete: nothing comes in between later. `place` counts per table.
CREATE VIEW ordered_results AS
SELECT e.site, e.table_name,
    row_number() OVER (
        PARTITION BY e.site, e.table_name ORDER BY began.utc, e.chain, e.seq
    ) AS place,
    e.chain, e.round, e.seq, e.utc, e.gaming_date, e.game, e.variant, e.outcome, e.corrected_by
FROM ended_rounds e
JOIN chains c ON c.chain = e.chain AND e.seq <= c.complete_to
JOIN links began ON began.chain = e.chain AND began.seq = c.begins
WHERE e.kind = 'result';

