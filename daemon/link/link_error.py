"""Why a link to a broker could not be built, or ended, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dollyd.daemon.link.trouble import RENAME
from dollyd.wire.errors import DollydError


class Cause(StrEnum):
    """Why a link could not be built, or ended."""

    UNREACHABLE = "unreachable"
    """No connection: no route, no such name."""
    REFUSED = "refused"
    """The host is there, nobody listens: the broker is down."""
    TLS = "tls"
    """A certificate or key file cannot be used, or the broker's is not trusted."""
    REJECTED = "rejected"
    """The broker does not want us: password, protocol, client id."""
    CLOSED = "closed"
    """The broker, or something on the way, closed the connection."""
    TAKEN_OVER = "taken-over"
    """Another client uses our client id."""
    SILENT = "silent"
    """No answer to a connect, or no sign of life within the keepalive time."""
    UNACKNOWLEDGED = "unacknowledged"
    """A publish was not acknowledged in time: whether it arrived is unknown."""
    DENIED = "denied"
    """The broker acknowledged a publish with an error, or takes none of that size (MQTT 5 only)."""
    MESSAGE_REFUSED = "message-refused"
    """The broker ended the link over one message: its size, for instance (MQTT 5 only)."""
    LEFT = "left"
    """We disconnected."""


REMEDIES = {
    Cause.REFUSED: "start the broker",
    Cause.UNREACHABLE: "correct mqtt.brokers or the network",
    Cause.TLS: "correct ca_file, cert_file, key_file, or the broker's certificate",
    Cause.REJECTED: "give dollyd a user, a certificate or the protocol that the broker takes",
    Cause.DENIED: "add the lines of `dollyd check --acl` to the broker's access list",
    Cause.TAKEN_OVER: RENAME,
}
"""What to do, where nothing more is known than the cause."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A publish that the broker has not acknowledged."""

    topic: str
    payload: bytes


class LinkError(DollydError):
    """A link could not be built or has ended. Expected: build the next one after a pause.

    `oldest`: the first publish without an answer. A broker takes them in order, so this one ended a link
    whose cause is `MESSAGE_REFUSED`. `remedy`: what to do, where the cause alone does not say it.
    """

    def __init__(
        self, cause: Cause, detail: str = "", oldest: Unanswered | None = None, remedy: str = ""
    ) -> None:
        super().__init__(f"{cause}: {detail}" if detail else str(cause))
        self.cause = cause
        self.detail = detail
        self.oldest = oldest
        self.remedy = remedy or REMEDIES.get(cause, "see the broker's log")
        """What to do, in one line."""

    @property
    def told(self) -> dict[str, str]:
        """For the log."""
        return {"cause": str(self.cause), "detail": self.detail, "remedy": self.remedy}
