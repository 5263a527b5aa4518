"""CURVE key pairs. A public key is a node's identity for one run; the secret one leaves its process only at launch."""

from __future__ import annotations

import msgspec
import zmq


class KeyPair(msgspec.Struct, frozen=True):
    """A node's CURVE keys, z85 text of 40 bytes each. Never shows the secret when printed."""

    public: bytes
    secret: bytes

    def __post_init__(self) -> None:
        if len(self.public) != 40 or len(self.secret) != 40:
            raise ValueError("a CURVE key is 40 bytes of z85 text; make a pair with new_keys()")

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public!r}, secret=...)"


def new_keys() -> KeyPair:
    """A fresh pair from the system's randomness."""
    public, secret = zmq.curve_keypair()
    return KeyPair(public, secret)
