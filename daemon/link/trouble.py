"""Why there is no link to a broker, in words, and what to do: the same in log, `check` and `doctor`."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass

from dollyd.daemon.link.address import Address

PROBE_S = 2.0
"""How long a port may take to show what it speaks."""
ANOTHER_NODE = "another node uses the name of this one, or its client id"
RENAME = "give each node of the site a `node` of its own, and stop the copy"

_EXPIRED, _NOT_YET = 10, 9
_OTHER_NAME = frozenset({62, 64})
"""Codes of OpenSSL (x509_vfy.h): a certificate has ended, has not begun, is for another name or address."""
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF", "EOF occurred")
_CONNECT = bytes.fromhex("10 0d 00 04 4d 51 54 54 04 02 00 05 00 01 3f")
"""CONNECT of MQTT 3.1.1, client id `?`: what answers with CONNACK, whatever it says, speaks MQTT."""
_CONNACK = 0x20
_RENEW = "renew it, or set this machine's clock"
_FILES = "correct mqtt.ca_file, cert_file, key_file, or the broker's certificate"


@dataclass(frozen=True, slots=True)
class Trouble:
    """One line: what is wrong, and the remedy."""

    what: str
    remedy: str


def explain_tls(error: OSError | None, address: Address, asked: str = "") -> Trouble:
    """What a failed TLS link means. `asked`: the broker's own refusal, which comes behind the handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _of_its_certificate(error, address)
    text = asked or str(error or "the broker closed the connection")
    for sign, (what, remedy) in _REFUSALS.items():
        if sign in text:
            return Trouble(f"the broker refuses this node: {what}", remedy)
    plain = any(sign in text for sign in _NO_TLS) or isinstance(error, ConnectionResetError)
    if plain and speaks_mqtt(address):
        port = f"{address.host}:{address.port}"
        remedy = f"write mqtt://{port}, or better name the broker's port for TLS"
        return Trouble(f"port {address.port} speaks MQTT without TLS", remedy)
    return Trouble(text, _FILES)


def explain_plain(address: Address) -> Trouble | None:
    """What a plain link that the broker has closed means, None where nobody knows."""
    if not speaks_tls(address):
        return None
    return Trouble(f"port {address.port} speaks TLS", f"write mqtts://{address.host}:{address.port}")


def speaks_tls(address: Address) -> bool:
    """Whether a TLS server listens there; nobody is believed, nothing is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((address.host, address.port), PROBE_S) as line,
            context.wrap_socket(line),
        ):
            return True
    except OSError:
        return False


def speaks_mqtt(address: Address) -> bool:
    """Whether a broker without TLS listens there."""
    try:
        with socket.create_connection((address.host, address.port), PROBE_S) as line:
            line.settimeout(PROBE_S)
            line.sendall(_CONNECT)
            return line.recv(1)[:1] == bytes([_CONNACK])
    except OSError:
        return False


def _of_its_certificate(error: ssl.SSLCertVerificationError, address: Address) -> Trouble:
    if error.verify_code in _OTHER_NAME:
        remedy = f"write a name that stands in it into mqtt.brokers, or have it issued for {address.host}"
        return Trouble(f"the broker's certificate is not for {address.host}", remedy)
    if error.verify_code == _EXPIRED:
        return Trouble("the broker's certificate has expired", _RENEW)
    if error.verify_code == _NOT_YET:
        return Trouble("the broker's certificate has not begun", _RENEW)
    what = f"nobody whom mqtt.ca_file names has signed the broker's certificate ({error.verify_message})"
    return Trouble(what, "name the authority that signed it as mqtt.ca_file")


_CERTIFICATE = "have the broker's authority issue mqtt.cert_file anew, with its key"
_REFUSALS = {
    "CERTIFICATE_EXPIRED": ("its certificate mqtt.cert_file has expired", "renew it; no restart is needed"),
    "CERTIFICATE_REVOKED": ("its certificate mqtt.cert_file is revoked", _CERTIFICATE),
    "UNKNOWN_CA": ("its certificate mqtt.cert_file is of an authority that it does not know", _CERTIFICATE),
    "BAD_CERTIFICATE": ("its certificate mqtt.cert_file is not taken", _CERTIFICATE),
    "CERTIFICATE_UNKNOWN": ("its certificate mqtt.cert_file is not taken", _CERTIFICATE),
    "CERTIFICATE_REQUIRED": (
        "it asks for a certificate",
        "name this node's own as mqtt.cert_file and mqtt.key_file",
    ),
    "HANDSHAKE_FAILURE": (
        "it asks for a certificate",
        "name this node's own as mqtt.cert_file and mqtt.key_file",
    ),
}
"""By what is in the alert, as OpenSSL names it."""
