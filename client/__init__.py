"""What downstream imports: the stream of signed records, verification, settlement; no hardware."""

from dollyd.client.stream.delivered import Delivered, StreamStats
from dollyd.client.stream.nodes import Nodes, NodeState
from dollyd.client.stream.replay import ChainError, GapError, Patience, StreamError
from dollyd.client.stream.site_trust import SiteTrust
from dollyd.client.stream.stream import Stream
from dollyd.client.stream.watermark import (
    FileWatermarks,
    MemoryWatermarks,
    SqliteWatermarks,
    Watermark,
    WatermarkStore,
)
from dollyd.daemon.link.mqtt import MqttSettings
from dollyd.wire.jws import Keys, keys_of_jwks
from dollyd.wire.key_source import KeySource
from dollyd.wire.trust import Trust, load_trust

__all__ = [
    "ChainError",
    "Delivered",
    "FileWatermarks",
    "GapError",
    "KeySource",
    "Keys",
    "MemoryWatermarks",
    "MqttSettings",
    "NodeState",
    "Nodes",
    "Patience",
    "SiteTrust",
    "SqliteWatermarks",
    "Stream",
    "StreamError",
    "StreamStats",
    "Trust",
    "Watermark",
    "WatermarkStore",
    "keys_of_jwks",
    "load_trust",
]
