"""Strangers at every door of a run: it goes on, and its journal says who was turned away. Nodes keep to themselves."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import psutil
import zmq

from littoral.events import Computed, Event, Refused
from littoral.testing import live, small_job
from littoral.worlds.processes.launch import Forge
from littoral.worlds.wire.keys import new_keys


def doors() -> set[int]:
    """Every port on which this run's coordinator or one of its nodes listens."""
    me = psutil.Process()
    family = [me, *me.children(recursive=True)]
    found = [c for process in family for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    return {connection.laddr.port for connection in found}


@contextmanager
def strangers(ports: set[int]) -> Iterator[None]:
    """A mute one, a babbler, one without keys and one with keys of its own, at each port, for as long as this lasts."""
    with ExitStack() as stack:
        context = stack.enter_context(zmq.Context())
        for port in ports:
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            babbler = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            babbler.sendall(b"\xff" + (10 * 2**30).to_bytes(8, "big") + b"\x7f" + b"GET / HTTP/1.1\r\n" * 200)
            for keys in (None, new_keys()):
                dealer = stack.enter_context(context.socket(zmq.DEALER))
                dealer.linger = 0
                if keys is not None:
                    dealer.curve_serverkey = new_keys().public
                    dealer.curve_publickey, dealer.curve_secretkey = keys.public, keys.secret
                dealer.connect(f"tcp://127.0.0.1:{port}")
                with suppress(zmq.Again):  # refused before it could say anything: sending would wait for ever
                    dealer.send_multipart([b"\x93\xa5chunk", b"x" * 1000], zmq.NOBLOCK)
        yield


def test_strangers_cannot_stop_a_run_and_are_journaled(forge: Forge) -> None:
    with ExitStack() as stack:
        besieged: list[int] = []

        def besiege(event: Event) -> None:
            if isinstance(event, Computed) and not besieged:
                besieged.extend(doors())
                stack.enter_context(strangers(set(besieged)))

        job = small_job(strategy="parameter_server", epochs=60, task={"samples": 960})
        story = live(job, launcher=forge, watch=besiege)
    assert story.reason == "epochs"
    assert story.contradictions() == []
    assert len(besieged) >= 5
    refused = story.of(Refused)
    assert {event.node for event in refused} >= {"coordinator", "ps-1", "w-1"}
    assert "handshake" in {event.reason for event in refused}


def files_of(process: psutil.Process) -> dict[int, str]:
    """What each of a process's file descriptors leads to."""
    found = {}
    for number in os.listdir(f"/proc/{process.pid}/fd"):
        try:
            found[int(number)] = os.readlink(f"/proc/{process.pid}/fd/{number}")
        except FileNotFoundError:  # closed meanwhile
            continue
    return found


def test_nodes_cannot_hear_what_the_zygote_is_told(forge: Forge) -> None:
    """Keys of every node go through its socket."""
    seen: list[tuple[set[str], list[dict[int, str]]]] = []

    def look(event: Event) -> None:
        if isinstance(event, Computed) and not seen:
            zygote = next(p for p in psutil.Process().children() if "zygote" in " ".join(p.cmdline()))
            sockets = {target for target in files_of(zygote).values() if target.startswith("socket:")}
            seen.append((sockets, [files_of(node) for node in zygote.children()]))

    live(small_job(strategy="parameter_server"), launcher=forge, watch=look)
    ((sockets, nodes),) = seen
    assert sockets and len(nodes) == 4
    for files in nodes:
        assert files[0] == os.devnull
        assert not sockets & set(files.values())
