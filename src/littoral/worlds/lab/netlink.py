"""The few orders to the kernel's network that a lab needs, over rtnetlink, so that no ``ip`` program must be there."""

from __future__ import annotations

import os
import socket
import struct

_NEWLINK, _NEWADDR, _NEWROUTE = 16, 20, 24
_REQUEST, _ACK, _CREATE = 1, 4, 0x400
_UP = 1
_MTU, _GSO_SEGMENTS = 4, 40
_ADDRESS, _LOCAL = 1, 2
_DESTINATION, _INTERFACE, _METRICS, _CONGESTION = 1, 4, 8, 16
_MAIN_TABLE, _BY_ADMIN, _LINK_SCOPE, _UNICAST = 254, 4, 253, 1


def set_up(interface: str, *, mtu: int = 0, gso_segments: int = 0) -> None:
    """Bring an interface up, with these properties where they are given."""
    wanted = {_MTU: mtu, _GSO_SEGMENTS: gso_segments}
    attributes = b"".join(_attribute(kind, struct.pack("I", value)) for kind, value in wanted.items() if value)
    _ask(_NEWLINK, struct.pack("BxHiII", 0, 0, socket.if_nametoindex(interface), _UP, _UP) + attributes)


def add_address(interface: str, address: str) -> None:
    """Give an interface an address of its own, with no neighbours."""
    packed = socket.inet_aton(address)
    head = struct.pack("BBBBI", socket.AF_INET, 32, 0, 0, socket.if_nametoindex(interface))
    _ask(_NEWADDR, head + _attribute(_LOCAL, packed) + _attribute(_ADDRESS, packed), _CREATE)


def add_route(interface: str, network: str, bits: int, congestion: str) -> None:
    """Send what is for ``network`` through an interface, under a TCP congestion control of its own."""
    head = struct.pack(
        "BBBBBBBBI", socket.AF_INET, bits, 0, 0, _MAIN_TABLE, _BY_ADMIN, _LINK_SCOPE, _UNICAST, 0
    )  # fmt: skip
    metrics = _attribute(_METRICS, _attribute(_CONGESTION, congestion.encode() + b"\0"))
    through = _attribute(_INTERFACE, struct.pack("i", socket.if_nametoindex(interface)))
    destination = _attribute(_DESTINATION, socket.inet_aton(network)) if bits else b""
    _ask(_NEWROUTE, head + destination + through + metrics, _CREATE)


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def _ask(kind: int, body: bytes, flags: int = 0) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.bind((0, 0))
        kernel.send(struct.pack("IHHII", 16 + len(body), kind, _REQUEST | _ACK | flags, 1, 0) + body)
        code = -int(struct.unpack_from("i", kernel.recv(8192), 16)[0])
    if code:
        raise OSError(code, f"the kernel refuses network order {kind}: {os.strerror(code)}")
