"""What happens: one table of troubles, one function each.

A function makes the trouble and takes away what people or the outside would; it calls `Act.over` where what
follows is the daemon's own work, else that begins with its return. From then on every table that was struck
must play again by itself within the trouble's bound.
"""

from __future__ import annotations

from tools.endure import at_tables, at_the_house
from tools.endure.act import Strikes, Trouble
from tools.soak.house import SS2, TLP

TABLE, HOUSE, READER = Strikes.TABLE, Strikes.HOUSE, Strikes.READER
_ONE = "table={table} "
TROUBLES = (
    Trouble(
        "F1",
        "a wheel contradicts itself",
        TABLE,
        at_tables.contradiction,
        30,
        ("event=unresolved", _ONE),
        3,
        SS2,
    ),
    Trouble(
        "F2",
        "another device, inspected",
        TABLE,
        at_tables.other_device,
        30,
        ("what=device-changed", _ONE),
        1,
        TLP,
    ),
    Trouble(
        "F5",
        "a line dead but open",
        TABLE,
        at_tables.dead_line,
        60,
        ("what=device-lost", "why=silent ", _ONE),
    ),
    Trouble(
        "F6", "a driver library raises", TABLE, at_tables.library_raises, 45, ("event=driver_error", _ONE)
    ),
    Trouble(
        "N7",
        "a port set otherwise",
        TABLE,
        at_tables.port_set_otherwise,
        30,
        ("what=device-lost", "why=settings-changed ", _ONE),
    ),
    Trouble("F3", "a backlog over short links", HOUSE, at_the_house.backlog_over_short_links, 45),
    Trouble(
        "F4",
        "four short links",
        HOUSE,
        at_the_house.short_links,
        30,
        ("event=broker_lost", "cause=closed"),
        4,
    ),
    Trouble(
        "F7",
        "a late order, the clock set back",
        HOUSE,
        at_the_house.late_order,
        30,
        ("event=command_refused",),
    ),
    Trouble("F8", "the cursor is lost", HOUSE, at_the_house.cursor_lost, 45, ("event=cursor_lost",)),
    Trouble("F9", "another gaming day for a while", HOUSE, at_the_house.wrong_day, 30, ("event=clock ",), 44),
    Trouble("F10", "killed after a draw", HOUSE, at_the_house.killed_after_draw, 45),
    Trouble(
        "F11",
        "an old capture is changed",
        HOUSE,
        at_the_house.capture_changed,
        45,
        ("event=journal_unsound",),
    ),
    Trouble("N1", "nobody reads the log", HOUSE, at_the_house.log_stalls, 30),
    Trouble("N2", "another has the journal at a start", HOUSE, at_the_house.busy_at_start, 60),
    Trouble(
        "N3",
        "the journal's file is replaced",
        HOUSE,
        at_the_house.journal_replaced,
        60,
        ("while the journal was open",),
    ),
    Trouble(
        "N4",
        "a broker of short messages",
        HOUSE,
        at_the_house.small_packets,
        90,
        ("event=publish_denied",),
        44,
    ),
    Trouble("N6", "a start years ahead", HOUSE, at_the_house.years_ahead, 45, ("event=clock ",), 44),
    Trouble(
        "N8",
        "a table gone while stopped",
        HOUSE,
        at_the_house.retained_of_the_past,
        45,
        ("event=retained_cleared",),
    ),
    Trouble("N10", "the host stands still", HOUSE, at_the_house.stall, 30, ("event=host_stalled",), 2),
    Trouble(
        "N13", "a certificate before its key", HOUSE, at_the_house.half_renewed, 30, ("event=reload_refused",)
    ),
    Trouble("N14", "another has the write lock", HOUSE, at_the_house.write_lock, 30, ("event=journal_held",)),
    Trouble("N5", "a broker where no node is heard", READER, at_tables.second_broker, 150),
    Trouble("N11", "the archive's server is read-only", READER, at_tables.read_only, 60),
)
NOT_MADE = {
    "F12": "a setting of the profile, no trouble",
    "N9": "the archive is behind a pooler in transaction mode all the time",
}
