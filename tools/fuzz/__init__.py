"""Damaged wire traffic against the drivers: what must never come of it, whatever happens on the line.

    seed --> well-made stream with its truth --> damage --> framing, protocol, table --> records: all true?
             (a pool, recorded from the simulators)         (virtual time)

`streams` damages, `recording` plays the simulators, `table` hears, `judge` compares; one file a kind of
device says what its truth is, and `kinds` lists them.
"""
