"""Whose message comes to the desk, so that no flood of others stands before the order of a person.

    form, kid of an operator --> signature right --> allowance of that person --> orders
    anything else -----------------------------------------------------------> strangers

Garbage costs next to nothing and is answered when there is time. A signature is looked at within an allowance
of the key that it names; a command whose signature was right counts for its person, once.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dollyd.client.proof.approvals import check_signature
from dollyd.daemon.host.allowance import Allowance, Allowances, Rate
from dollyd.daemon.host.clock import Clock
from dollyd.daemon.link.mqtt import Message
from dollyd.wire.command import COMMAND_MAX_BYTES, COMMAND_TYP, digest, read_command
from dollyd.wire.jws import EnvelopeError, open_envelope
from dollyd.wire.stamp import iso_utc
from dollyd.wire.trust import Trust

WAITING_MAX = 100
"""Orders that wait."""
STRANGERS_MAX = 20
"""Other messages that wait."""
STRANGERS_RATE = Rate(per_s=10, at_once=20)
"""What is answered of messages that no operator has signed."""
SIGNATURES_RATE = Rate(per_s=1000, at_once=2000)
"""Signatures that are checked, of all keys together ..."""
SIGNATURES_OF_A_KEY = Rate(per_s=200, at_once=400)
"""... and of one key: whoever writes its name below garbage takes nothing of the others."""
ORDERS_RATE = Rate(per_s=5, at_once=20)
"""Orders of one person."""
REPEATS_RATE = Rate(per_s=1, at_once=3)
"""The same bytes again: the answer may have been lost."""
_NAMES_KEPT = 4000


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that is to be dealt with; `who` is the operator that signed it, empty for anybody else."""

    table: str
    message: Message
    who: str = ""


@dataclass(slots=True)
class _Signed:
    """A command whose signature was right."""

    who: str
    expires: str
    repeats: Allowance = field(default_factory=lambda: Allowance(Rate(0, 0)))
    """How often its bytes may come; never, until its person had an allowance for it."""


class Admission:
    """The messages that wait, in the order in which they are dealt with: orders first."""

    def __init__(self, trust: Callable[[], Trust | None], clock: Clock) -> None:
        self._trust = trust
        self._clock = clock
        self._orders: deque[Waiting] = deque()
        self._strangers: deque[Waiting] = deque()
        self._any_stranger = Allowance(STRANGERS_RATE)
        self._any_signature = Allowance(SIGNATURES_RATE)
        self._signatures = Allowances(SIGNATURES_OF_A_KEY, _NAMES_KEPT)
        self._persons = Allowances(ORDERS_RATE, _NAMES_KEPT)
        self._known: OrderedDict[str, _Signed] = OrderedDict()
        """By digest, so that bytes that somebody repeats cost their person nothing."""

    def __len__(self) -> int:
        return len(self._orders) + len(self._strangers)

    def __iter__(self) -> Iterator[Waiting]:
        yield from self._orders
        yield from self._strangers

    def pop(self) -> Waiting:
        """The next one; some message waits."""
        return (self._orders or self._strangers).popleft()

    def take(self, table: str, message: Message) -> str:
        """Have a message wait; gives why one is not dealt with, this or another: empty where all are."""
        now_ns = self._clock.stamp().mono_ns
        signed = None if message.retain else self._signed(message.payload, now_ns)
        if signed is None:
            if len(self._strangers) >= STRANGERS_MAX or not self._any_stranger.take(now_ns):
                return "too-many"
            self._strangers.append(Waiting(table, message))
            return ""
        if not signed.repeats.take(now_ns):
            return "too-many-of-one"
        who = signed.who
        self._orders.append(Waiting(table, message, who))
        if len(self._orders) <= WAITING_MAX:
            return ""
        self._push_out()
        return "queue-full"

    def _signed(self, payload: bytes, now_ns: int) -> _Signed | None:
        """Who has signed a command that is still good, if an operator is known to have."""
        if len(payload) > COMMAND_MAX_BYTES:
            return None
        same = digest(payload)
        signed = self._known.get(same) or self._check(payload, now_ns)
        if signed is None or signed.expires <= iso_utc(self._clock.stamp().utc_ns):
            return None
        if same not in self._known:
            if not self._persons.take(signed.who, now_ns):
                return signed
            signed.repeats = Allowance(REPEATS_RATE)
            self._known[same] = signed
            if len(self._known) > _NAMES_KEPT:
                self._known.popitem(last=False)
        return signed

    def _check(self, payload: bytes, now_ns: int) -> _Signed | None:
        """Look at the signature, where there is an allowance for it."""
        trust = self._trust()
        if trust is None:
            return None
        try:
            person = trust.operator(open_envelope(payload, COMMAND_TYP).kid)
            if person is None or not self._signatures.take(person.kid, now_ns):
                return None
            if not self._any_signature.take(now_ns):
                return None
            signed = read_command(payload)
            check_signature(signed, person)
        except EnvelopeError:
            return None
        return _Signed(person.id, signed.command.expires)

    def _push_out(self) -> None:
        """The last order of whoever has most of them goes."""
        ((busiest, _),) = Counter(one.who for one in self._orders).most_common(1)
        last = max(place for place, one in enumerate(self._orders) if one.who == busiest)
        del self._orders[last]
