"""What downstream imports: the stream of signed records, verification, settlement; no hardware."""

from dollyd.client.delivered import Delivered, StreamStats
from dollyd.client.jws import Keys, keys_of_jwks
from dollyd.client.key_source import KeySource
from dollyd.client.nodes import Nodes, NodeState
from dollyd.client.replay import ChainError, GapError, Patience, StreamError
from dollyd.client.site_trust import SiteTrust
from dollyd.client.stream import Stream
from dollyd.client.trust import Trust, load_trust
from dollyd.client.watermark import (
    FileWatermarks,
    MemoryWatermarks,
    SqliteWatermarks,
    Watermark,
    WatermarkStore,
)
from dollyd.daemon.mqtt import MqttSettings

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
