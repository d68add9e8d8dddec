-- What an evening has besides its ended rounds: exceptional events by gaming date, and rounds that nothing has ended yet.

-- The gaming date is that of the session in which it came.
CREATE VIEW evening_incidents AS
SELECT i.site, i.table_name, s.gaming_date, s.opened_at, i.chain, i.seq, i.utc, i.round, i.kind, i.what, i.device,
    i.text, i.details
FROM incidents i
LEFT JOIN sessions s ON s.chain = i.chain
    AND s.seq = (SELECT max(n.seq) FROM sessions n WHERE n.chain = i.chain AND n.seq < i.seq);

-- In play, or unresolved: `rule` and `text` say why people must decide.
CREATE VIEW open_rounds AS
SELECT r.site, r.table_name, s.gaming_date, r.chain, r.round, r.utc AS opened_at, u.utc AS unresolved_at, u.what AS rule,
    u.text
FROM rounds r
LEFT JOIN incidents u ON u.chain = r.chain AND u.round = r.round AND u.kind = 'unresolved'
LEFT JOIN sessions s ON s.chain = r.chain
    AND s.seq = (SELECT max(n.seq) FROM sessions n WHERE n.chain = r.chain AND n.seq < r.seq)
WHERE NOT EXISTS (SELECT 1 FROM finals f WHERE f.chain = r.chain AND f.round = r.round);
