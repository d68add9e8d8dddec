"""Driver `tlp`, talker BD: a ball detector beside any wheel (tlp-1.md 7).

    $BDSTA,seq,state,game,laps,dir,flags      $BDEVT,seq,game,LAP,n,ms      $BDEVT,seq,game,DROP,laps,dir
    $BDRES,seq,game,laps,dir,flags

It supports those who read the outcome: it counts laps and sees the direction of the ball, never a number.
Its game begins with the ball in the rim; laps are counted here, the total in `RES` is the second witness.
"""

from __future__ import annotations

from dollyd.daemon.core.events import Defect, Flag, Observed, TurnsBasis
from dollyd.drivers.protocols.tlp.device import whole_of
from dollyd.drivers.protocols.tlp.game import AT_REST, DIRECTIONS, MOVING, Kind
from dollyd.drivers.protocols.tlp.laps import LapGames, one_more
from dollyd.drivers.protocols.tlp.sentence import Sentence
from dollyd.drivers.protocols.tlp.wheel import FLAGS
from dollyd.drivers.spec import DeviceSetup


class BallProtocol(LapGames):
    """The language of a ball detector without I/O."""

    def __init__(self, setup: DeviceSetup) -> None:
        super().__init__(setup, Kind("BD", "BALL", (MOVING, AT_REST), 4, FLAGS))

    def _begins_with(self, sentence: Sentence) -> bool:
        return sentence.field(1) == "LAP"

    def _on_state(self, sentence: Sentence) -> None:
        attempt = self._own.attempt
        if attempt and attempt.state in (MOVING, AT_REST) and not attempt.result:
            self._laps_shown(sentence.field(2))
            self._ball_runs(DIRECTIONS.get(sentence.field(3), ""))

    def _ball_runs(self, direction: str) -> None:
        """Clause 7: the direction of the ball is the same wherever it is told."""
        attempt = self._own.attempt
        if attempt is None or not direction:
            return
        before = attempt.direction
        self._compare("ball_direction", before, direction, agree=before in ("", direction))
        self._change(direction=before or direction)

    def _on_event(self, sentence: Sentence) -> None:
        attempt = self._own.attempt
        if attempt is None:
            return
        match sentence.field(1):
            case "LAP":
                self._tally("LAP", sentence.field(2))
                turns_x100 = one_more(attempt.facts.ball_turns_x100)
                self._learn(turns_basis=TurnsBasis.COUNTED, ball_turns_x100=turns_x100)
            case "DROP":
                self._go_to(AT_REST)
                self._laps_told(sentence.field(2), "DROP")
                self._change(dropped=sentence.field(2))
                self._ball_runs(DIRECTIONS.get(sentence.field(3), ""))
            case _:
                self.counters["unknown-event"] += 1

    def _on_rest(self, fields: tuple[str, ...]) -> None:
        _, laps, direction, mask, *_ = (*fields, *("",) * 4)
        dropped = self._own.attempt.dropped if self._own.attempt else ""
        agree = whole_of(dropped) in (None, whole_of(laps)) or whole_of(laps) is None
        doubt = Defect.COUNTS_DIFFER
        self._compare("laps_dropped", f"RES {laps}", f"DROP {dropped}", agree=agree, doubt=doubt)
        self._laps_at_rest(laps)
        self._ball_runs(DIRECTIONS.get(direction, ""))
        if self._confirmed_flags(mask) is None:
            return
        self._direction(DIRECTIONS.get(direction, ""))
        attempt = self._own.attempt
        if attempt and attempt.open:
            self._close_with(Observed(attempt.ref, attempt.facts))

    def _direction(self, ball: str) -> None:
        """It sees the ball; of the rotor it knows only what flag 02 says."""
        attempt = self._own.attempt
        same = attempt is not None and Flag.BALL_WITH_ROTOR in attempt.facts.flags
        self._note(ball_direction=ball, wheel_direction=ball if same else "")
