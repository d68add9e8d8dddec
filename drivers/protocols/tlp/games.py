"""TLP/1 devices that play games: from the first sentence of a game to its `RES` (tlp-1.md 3.3 to 3.6, 5).

Evidence rule. A `RES` is a reading only if this very game was seen live from its begin (state 2) on, every
step of its way was seen without a silence, nothing was lost between the last sentence that showed the draw
moving and the `RES` (it may have been another `RES`), and the `RES` itself has no fault. A `RES` of any other
game is acknowledged and counted: it repeats an old one. No reading is told twice.

What is never repeated but comes with an old number is no news: an old sentence, or a device that has
restarted unseen. It counts for nothing but a doubt, until a `HEL` tells of another boot.

Events are counted from the last `STA` in state 2 on: what moved before was no draw.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from dollyd.daemon.core.events import (
    BetsClosed,
    Defect,
    DeviceEvent,
    DrawStarted,
    Ending,
    GameRef,
    GameStarted,
    Reading,
    ReadingContradicted,
    TurnsBasis,
)
from dollyd.drivers.protocols.tlp.device import mask_of
from dollyd.drivers.protocols.tlp.game import (
    AT_REST,
    BEFORE_GAME,
    CLOSED,
    MISSING_MAX,
    MOVING,
    NO_MORE_BETS,
    PLACE_BETS,
    Attempt,
    GameKeeper,
    GamesState,
    Heard,
    Travel,
)
from dollyd.drivers.protocols.tlp.sentence import SEQUENCES, Sentence
from dollyd.wire.stamp import Stamp

_GAME = re.compile(r"[0-9]{4}")


class TlpGames(GameKeeper):
    """A device that plays games. A kind says what its events and its `RES` mean."""

    # --- what a kind says ----------------------------------------------------------------------------

    def _on_state(self, sentence: Sentence) -> None:
        """A `STA` of the game in progress."""

    def _on_event(self, sentence: Sentence) -> None:
        """An `EVT` of the game in progress that is not at rest."""

    def _on_rest(self, fields: tuple[str, ...]) -> None:
        """The first `RES` of the game: end with `_finish`, or `_spoil` it."""
        raise NotImplementedError

    def _begins_with(self, _sentence: Sentence) -> bool:
        """Whether an `EVT` begins a game that no `STA` has told yet."""
        return False

    def _waits(self, _fields: tuple[str, ...]) -> bool:
        """Whether a `RES` says that nothing is at rest yet."""
        return False

    def _value_of(self, fields: tuple[str, ...]) -> tuple[str, ...]:
        """What a `RES` shows, for people to compare."""
        return fields[1:2]

    # --- the connection ------------------------------------------------------------------------------

    def _due(self) -> list[int]:
        attempt = self._own.attempt
        watched = attempt is not None and attempt.open and attempt.state in (MOVING, NO_MORE_BETS)
        return [self._own.sta_at_ns + self._silence_ns + 1] if watched else []

    def _on_time(self, at: Stamp) -> None:
        if at.mono_ns - self._own.sta_at_ns > self._silence_ns:
            self._gap(MOVING, NO_MORE_BETS)

    def _on_opened(self, at: Stamp) -> None:
        kept = self._own
        self._own = GamesState(sta_at_ns=at.mono_ns, heard=kept.heard, earlier=kept.earlier, read=kept.read)

    def _on_lost(self) -> None:
        self._end(Ending.LOST, Defect.DEVICE_LOST)

    def _on_rebooted(self) -> None:
        """Its numbers and its games may begin anew."""
        self._gap(*self._kind_of.path)
        self._keep(finished="")

    def _on_wrong_device(self) -> None:
        self._spoil(Defect.WRONG_DEVICE)

    def _on_sentence(self, sentence: Sentence, at: Stamp) -> None:
        if sentence.message == "RES":
            self._on_result(sentence)
            return
        if self._is_old(sentence):
            self._gap(*self._kind_of.path)
            return
        ahead = self._distance(sentence.seq)
        if ahead == 0:
            self.counters["repeated"] += 1
            return
        self._missed(sentence.seq, ahead)
        self._numbered(sentence.seq)
        match sentence.message:
            case "STA":
                self._on_status(sentence, at)
            case "EVT":
                self._on_counted(sentence, at)
            case "FLT":
                self._on_fault(sentence)

    def _missed(self, seq: int, ahead: int) -> None:
        """Sentences were lost, which ones nobody knows."""
        if ahead > 1:
            self.counters["missed"] += ahead - 1
            numbers = [(seq - back) % SEQUENCES for back in range(min(ahead - 1, MISSING_MAX), 0, -1)]
            self._keep(
                missing=(*self._own.missing, *numbers)[:MISSING_MAX],
                hidden=(*self._own.hidden, *numbers)[:MISSING_MAX],
            )

    def _health(self, bits: int) -> None:
        """What stands in `STA` or `FLT` is the device's own word on its order."""
        if not self._trusted:
            return
        if bits & self._kind_of.table.fault:
            self._break(f"the device reports a fault (flags {bits:02X})")
        else:
            self._mend()

    # --- games ---------------------------------------------------------------------------------------

    def _on_status(self, sentence: Sentence, at: Stamp) -> None:
        state, game = sentence.field(0), sentence.field(1)
        bits = mask_of(sentence.field(self._kind_of.flags_at) or "00")
        if state not in ("1", "2", "3", "4", "5", "6") or not _GAME.fullmatch(game) or bits is None:
            self.counters["unknown-state"] += 1
            return
        now = int(state)
        # A stall while bets are open hides nothing; the way begins with the last `STA` in state 2.
        if at.mono_ns - self._own.sta_at_ns > self._silence_ns and now != PLACE_BETS:
            self._gap(PLACE_BETS, MOVING, NO_MORE_BETS)
        if how := self._ending(now, game):
            self._end_by(how)
        if self._own.attempt is None:
            self._begin(now, game)
        else:
            self._go_to(now)
        if now in (BEFORE_GAME, PLACE_BETS, CLOSED):
            self._nothing_moved()
        if self._own.attempt:
            self._flagged(bits)
            self._on_state(sentence)
        if now != AT_REST:
            self._seen_moving()
        self._keep(before=now, sta_at_ns=at.mono_ns)
        self._health(bits)

    def _ending(self, now: int, game: str) -> Ending | None:
        """How a `STA` ends the game in progress, None where it goes on or there is none."""
        attempt = self._own.attempt
        if attempt is None:
            return None
        if game != attempt.ref.game:
            return Ending.SUPERSEDED
        if now == CLOSED:
            return Ending.SHUT_DOWN
        return Ending.SUPERSEDED if now < attempt.state and now <= PLACE_BETS else None

    def _end_by(self, how: Ending) -> None:
        attempt = self._own.attempt
        if attempt and attempt.state == AT_REST:
            self._end(how, None if attempt.facts.defects else Defect.UNCONFIRMED)
        else:
            self._end(how, Defect.ILLEGAL_TRANSITION if how is Ending.SUPERSEDED else None)

    def _begin(self, now: int, game: str) -> None:
        own, start = self._own, self._kind_of.path[0]
        if now in (BEFORE_GAME, CLOSED) or now < start:
            return
        # Not seen from its begin on, or under the number of the game before.
        unseen = now != start or own.before == 0 or (own.before == start and start > PLACE_BETS)
        joined = unseen or not self._trusted or game == own.finished
        ref = self._next_ref(game)
        self._keep(attempt=Attempt(ref, now, joined=joined), last=ref)
        self._events.append(GameStarted(ref, joined=joined))
        if now == MOVING:
            self._tell(DrawStarted(ref))

    def _next_ref(self, game: str) -> GameRef:
        """A name that no other game has: numbers wrap, begin anew and come again."""
        last = self._own.last
        if last and game < last.game:
            self._keep(epoch=self._own.epoch + 1)
        epoch = f".{self._own.epoch}" if self._own.epoch else ""
        again = last.attempt + 1 if last and game == last.game else 1
        return GameRef(self._setup.name, self._link.session + epoch, game, again)

    def _go_to(self, now: int) -> None:
        attempt, path = self._own.attempt, self._kind_of.path
        if attempt is None or attempt.state == now or attempt.done:
            return
        was = attempt.state
        self._change(state=now)
        if (was, now) not in pairwise(path):
            self._spoil(Defect.ILLEGAL_TRANSITION)
        elif now == MOVING:
            self._tell(DrawStarted(attempt.ref))
        elif now == NO_MORE_BETS:
            self._tell(BetsClosed(self._setup.name, attempt.ref))

    def _seen_moving(self) -> None:
        """Not at rest yet: no `RES` of this game is among what was lost so far."""
        if self._own.hidden:
            self._keep(hidden=())

    def _nothing_moved(self) -> None:
        """The device stands at the begin of a game: nothing counted so far, or lost, was of its draw."""
        lost = bool(self._own.missing)
        self._keep(missing=())
        if attempt := self._own.attempt:
            facts = replace(
                attempt.facts, turns_basis=TurnsBasis.NONE, ball_turns_x100=None, wheel_turns_x100=None
            )
            from_one = attempt.tallies_from_one and not attempt.tallies and not lost
            self._change(facts=facts, travel=Travel(), tallies=(), tallies_from_one=from_one, total="")

    def _on_counted(self, sentence: Sentence, at: Stamp) -> None:
        attempt, game = self._own.attempt, sentence.field(0)
        other = attempt is None or attempt.ref.game != game
        if other and self._begins_with(sentence) and _GAME.fullmatch(game):
            self._end_by(Ending.SUPERSEDED)
            self._begin(self._kind_of.path[0], game)
            self._keep(before=self._kind_of.path[0], sta_at_ns=at.mono_ns)
            attempt = self._own.attempt
        if attempt is None or attempt.ref.game != game or attempt.result or attempt.done:
            self.counters["event-misplaced"] += 1
            return
        self._seen_moving()
        self._on_event(sentence)

    def _on_fault(self, sentence: Sentence) -> None:
        bits = mask_of(sentence.field(1))
        if bits is None:
            bits = self._kind_of.table.fault  # a fault that cannot be read is one
        attempt = self._own.attempt
        if attempt and sentence.field(0) in ("", attempt.ref.game):
            self._flagged(bits)
        self._health(bits)

    # --- the result ----------------------------------------------------------------------------------

    def _on_result(self, sentence: Sentence) -> None:
        if not self._trusted:
            self.counters["result-refused"] += 1
            return
        game, fields = sentence.field(0), sentence.fields
        self._acknowledge(sentence, game)
        heard, before = Heard(sentence.seq, fields), self._own.heard
        if before and before.fields[:1] != fields[:1]:
            self._keep(earlier=before.fields)
        self._keep(heard=heard)
        if self._distance(sentence.seq) == 1:
            self._numbered(sentence.seq)
        attempt = self._own.attempt
        if attempt is None or attempt.ref.game != game:
            self._old_result(fields)
        elif attempt.joined:
            self.counters["result-unseen"] += 1
        elif attempt.result:
            self._same_game_again(attempt, fields)
        elif heard == before:
            self.counters["repeated"] += 1  # of an earlier game under this number
        elif self._waits(fields):
            self.counters["not-at-rest"] += 1
        else:
            self._first_result(sentence)

    def _first_result(self, sentence: Sentence) -> None:
        ahead = self._distance(sentence.seq)
        if ahead > 1:
            self._missed(sentence.seq, ahead)
            self._numbered(sentence.seq)
        missing, hidden = (
            tuple(number for number in numbers if number != sentence.seq)
            for numbers in (self._own.missing, self._own.hidden)
        )
        self._keep(missing=missing, hidden=hidden)
        self._keep(finished=sentence.field(0))
        self._change(result=sentence.fields)
        self._go_to(AT_REST)
        self._on_rest(sentence.fields)

    def _same_game_again(self, attempt: Attempt, fields: tuple[str, ...]) -> None:
        if fields == attempt.result:
            self.counters["repeated"] += 1
        elif attempt.done:
            self._contradict(fields)
        else:
            self._spoil(Defect.NUMBER_CHANGED)

    def _old_result(self, fields: tuple[str, ...]) -> None:
        """A `RES` of a game that was not seen from its begin on: no reading, whatever it says."""
        read = self._own.read
        if read and fields[:1] == (read.ref.game,) and read.result != fields:
            self._contradict(fields)
        else:
            self.counters["result-unseen"] += 1

    def _contradict(self, fields: tuple[str, ...]) -> None:
        read = self._own.read
        if read and not read.contradicted:
            self._keep(read=replace(read, contradicted=True))
            self._events.append(ReadingContradicted(read.ref, self._value_of(fields)))

    def _confirmed_flags(self, text: str) -> int | None:
        """The flags of a `RES`, all of them counted; None where they cannot be read, which spoils it."""
        bits = mask_of(text)
        if bits is None:
            self._spoil(Defect.UNREAD)
            return None
        self._note_flags(bits)
        self._confirmed_doubts()
        return bits

    def _confirmed_doubts(self) -> None:
        """The draw came to an outcome: what was doubtful decides."""
        if attempt := self._own.attempt:
            for doubt in attempt.doubts:
                self._spoil(doubt)

    def _finish(self, value: tuple[str, ...]) -> None:
        """The evidence is complete: this is the reading."""
        if self._own.hidden:
            self._spoil(Defect.DATA_GAP)
        attempt = self._own.attempt
        if attempt and attempt.open:
            self._close_with(Reading(attempt.ref, value, attempt.facts))

    def _close_with(self, event: DeviceEvent) -> None:
        """The game has told what it had to tell."""
        self._change(done=True)
        self._keep(read=self._own.attempt)
        self._tell(event)
