"""What a host of the lab looks like from inside its network namespace."""

from __future__ import annotations

from pathlib import Path

from littoral.worlds.lab import netlink
from littoral.worlds.lab.wiring import COORDINATOR, MTU, Wiring

_MOST_BUFFER = 32 << 20  # so that long fat links can be filled


def connect(wiring: Wiring, host: str, interface: str) -> None:
    """Set up the interface that the router has put there. Call it inside the host's namespace.

    The coordinator's is the root namespace, of which only the way to the lab is touched.
    """
    if host != COORDINATOR:
        _tune(*wiring.buffers(host))
        netlink.set_up("lo")
    netlink.set_up(interface, mtu=MTU, gso_segments=wiring.segments(host))
    netlink.add_address(interface, wiring.address(host))
    network, bits = (f"10.77.{wiring.subnet}.0", 24) if host == COORDINATOR else ("0.0.0.0", 0)
    netlink.add_route(interface, network, bits, _congestion_control())


def _tune(send_buffer: int, receive_buffer: int) -> None:
    settings = {
        "ipv4/tcp_wmem": f"4096 {send_buffer} {_MOST_BUFFER}",
        "ipv4/tcp_rmem": f"4096 {receive_buffer} {_MOST_BUFFER}",
        "ipv4/tcp_slow_start_after_idle": "0",  # training talks in bursts; nobody tunes it so who has far links
        "ipv4/tcp_tso_rtt_log": "0",  # join segments by rate only; short round trips would make them 64 kB
        "ipv6/conf/all/disable_ipv6": "1",
    }
    for name, value in settings.items():
        path = Path("/proc/sys/net") / name
        if path.exists():
            path.write_text(value)


def _congestion_control() -> str:
    """Not the machine's default, which may be BBR: with a short queue it gets a tenth of a slow link."""
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    return "cubic" if "cubic" in available else "reno"
