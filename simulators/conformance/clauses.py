"""The clauses of docs/protocols/tlp-1.md that a test can see, in one literal table.

Not in it: 1.1 and 1.2 (that sentences arrive at all shows the port), what is asked of the host (4.3, 5.2 to
5.4, 11.2), and what only the device can know (6.5, 9.4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from dollyd.simulators.conformance import common_checks as common
from dollyd.simulators.conformance import kind_checks as kinds
from dollyd.simulators.conformance import line_checks as lines
from dollyd.simulators.conformance import result_checks as results
from dollyd.simulators.conformance import wheel_checks as wheels
from dollyd.simulators.conformance.findings import Tally
from dollyd.simulators.conformance.record import Record


class Needs(StrEnum):
    """What it takes to see a clause kept."""

    NOTHING = ""
    PERSON = "a person, see --interactive"


@dataclass(frozen=True, slots=True)
class Clause:
    """One demand of the document; several may have the same number."""

    id: str
    text: str
    talkers: str
    """Talkers that it is asked of."""
    check: Callable[[Record], Tally]
    needs: Needs = Needs.NOTHING

    def asked_of(self, talker: str) -> bool:
        """Whether it is a demand on this kind of device."""
        return talker in self.talkers.split()


_ALL = "WH BD MW DC OD CN"
_PLAY = "WH BD MW DC"
_COUNT = "WH BD MW"
_RESULT = "WH BD MW DC OD"

CLAUSES: tuple[Clause, ...] = (
    Clause("1.3", "no restart when the port is opened, nor later", _ALL, common.no_restart),
    Clause("2.1", "talker and messages of this kind", _ALL, lines.talker),
    Clause("2.2", "printable, of the form $...*HHHH CR LF, <= 120 bytes", _ALL, lines.form_of_lines("2.2")),
    Clause("2.3", "checksum", _ALL, lines.form_of_lines("2.3")),
    Clause("2.4", "numbers: +1 a new sentence, the same bytes again", _ALL, lines.numbering),
    Clause("2.5", "fields in their places", _ALL, lines.places),
    Clause("2.6", "silent on a wrong checksum", _ALL, lines.silent_on_bad_checksum),
    Clause("2.6", "alive after rubbish", _ALL, lines.alive_after_rubbish),
    Clause("3.1", "HEL as the answer to QRY", _ALL, common.hello_when_asked),
    Clause("3.1", "HEL: version, kind, serial number, boot id", _ALL, common.hello_tells),
    Clause("3.1", "HEL at boot, with another boot id", _ALL, common.hello_at_boot, Needs.PERSON),
    Clause("3.2", "STA every 0.5 s", _ALL, common.heartbeat),
    Clause("3.3", "RES every 0.5 s until acknowledged", _RESULT, results.repeated),
    Clause("3.3", "RES no more once acknowledged", _RESULT, results.silent_once_acknowledged),
    Clause("3.3", "one RES a game", _PLAY, results.result_once),
    Clause("3.3", "RES at rest, in every game", _PLAY, results.result_at_rest),
    Clause("3.3", "RES kept over a loss of power", _RESULT, results.result_kept, Needs.PERSON),
    Clause("3.4", "FLT when a fault appears or goes", "WH BD MW DC CN", common.faults, Needs.PERSON),
    Clause("3.4", "STA carries the flags of FLT", "WH BD MW DC CN", common.same_flags, Needs.PERSON),
    Clause("3.4", "FLT when a fault appears", "OD", common.faults),
    Clause("3.5", "EVT not repeated", _COUNT, common.events_once),
    Clause("3.6", "game numbers: +1, none used again", _PLAY, results.game_numbers),
    Clause("4.1", "QRY brings the RES that waits", _RESULT, results.result_when_asked),
    Clause("4.2", "ACK for something else is none", _ALL, results.only_the_right_acknowledgement),
    Clause("4.4", "works with QRY, ACK and DRW alone", _ALL, common.nothing_else_needed),
    Clause("5.1", "way of a game: 2-3-4-5 or 2-3-5, or 6", _PLAY, results.way_of_a_game),
    Clause("6.1", "no number before the end", "WH", wheels.no_early_number),
    Clause("6.1", "laps in STA are the LAP events", "WH", wheels.laps_shown(5)),
    Clause("6.2", "n of LAP and REV counts from 1", "WH", wheels.counted_from_one),
    Clause("6.2", "ms of LAP and REV is the time", "WH", wheels.times_told),
    Clause("6.3", "laps are the LAP events", "WH", wheels.laps_total(4)),
    Clause("6.3", "a pocket has one number, the layout's; boule names it", "WH", wheels.pockets),
    Clause("6.4", "flags of the table", "WH", kinds.flags_defined),
    Clause("7.1", "laps in STA are the LAP events", "BD", wheels.laps_shown(2)),
    Clause("7.2", "n of LAP counts from 1", "BD", wheels.counted_from_one),
    Clause("7.2", "ms of LAP is the time", "BD", wheels.times_told),
    Clause("7.2", "laps at DROP are the LAP events", "BD", wheels.laps_at_drop),
    Clause("7.3", "laps are the LAP events", "BD", wheels.laps_total(1)),
    Clause("7.3", "one direction in STA, DROP and RES", "BD", wheels.one_direction),
    Clause("7.4", "flags of the table", "BD", kinds.flags_defined),
    Clause("8.1", "STA names the sector under the pointer", "MW", wheels.heartbeat_sector),
    Clause("8.2", "PASS in the order of the sectors", "MW", wheels.neighbours),
    Clause("8.2", "ms of PASS is the time", "MW", wheels.times_told),
    Clause("8.3", "sector, direction and turns are those of PASS", "MW", wheels.money_result),
    Clause("8.4", "flags of the table", "MW", kinds.flags_defined),
    Clause("9.2", "n faces, n confidences, flags", "DC", kinds.dice_parts),
    Clause("9.2", "a picture a throw", "DC", kinds.one_picture_a_throw),
    Clause("9.3", "flags of the table", "DC", kinds.flags_defined),
    Clause("10.1", "state 5 while an answer is shown", "OD", kinds.shows_answer),
    Clause("10.2", "one draw a game", "OD", kinds.one_draw_a_game),
    Clause("10.2", "asked again: the first answer; another nonce: flag 10", "OD", kinds.answers_again),
    Clause("10.2", "counter: +1 a draw", "OD", kinds.draw_counter),
    Clause("10.3", "nonce as asked", "OD", kinds.nonce_as_asked),
    Clause("10.3", "proof with the shared key", "OD", kinds.proof),
    Clause("10.4", "flags of the table", "OD", kinds.flags_defined),
    Clause("11.1", "a key every 0.5 s until acknowledged", "CN", results.repeated),
    Clause("11.1", "a key no more once acknowledged", "CN", results.silent_once_acknowledged),
    Clause("11.1", "keys of the table", "CN", kinds.keys),
    Clause("11.4", "STA shows the badge", "CN", kinds.badge, Needs.PERSON),
)
