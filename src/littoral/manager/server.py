"""``littoral serve``: a socket, a first token, a service on it, and an orderly end."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn

from littoral.errors import InputError
from littoral.manager.address import Address, read_address, write_address
from littoral.manager.manager import Manager
from littoral.manager.service import make_app
from littoral.manager.tokens import Role

_FINISH_S = 10  # for requests to be finished when the manager stops


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where to listen, and with which certificate, if any."""

    host: str = "127.0.0.1"
    port: int = 8437
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise InputError("a certificate and its key go together", remedy="give both --certificate and --key")

    @property
    def beyond_loopback(self) -> bool:
        """Whether other machines could connect."""
        try:
            return not ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host != "localhost"


class _Server(uvicorn.Server):
    """Ends its streams when it is asked to end, so that nobody waits for them."""

    def __init__(self, manager: Manager, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._manager = manager

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit, self.should_exit = self.should_exit, True
        self._manager.closing.set()


def serve(manager: Manager, listening: Listening, tell: Callable[[str], None], *, page: bool = False) -> None:
    """Serve until asked to end, with the page if asked for. ``tell`` is told the address."""
    if listening.beyond_loopback and not manager.tokens.any():
        remedy = f"make one first: littoral token create NAME --data {manager.folder}"
        raise InputError(f"there is no token, and {listening.host} is not loopback", remedy=remedy)
    with _socket(listening) as sock:
        manager.start()
        try:
            address = _address(manager, listening, sock.getsockname()[1])
            write_address(manager.folder, address)
            tell(f"serving {manager.folder} at {address.url}")
            app = make_app(manager, page=page, secure=listening.certificate is not None)
            config = uvicorn.Config(
                app, log_config=None, access_log=False, timeout_graceful_shutdown=_FINISH_S,
                ssl_certfile=listening.certificate, ssl_keyfile=listening.key,
            )  # fmt: skip
            _Server(manager, config).run(sockets=[sock])
        finally:
            manager.stop()


def first_token(manager: Manager) -> str | None:
    """An operator's token for a folder that has none; its secret, which is told once."""
    if manager.tokens.any():
        return None
    with manager.database.write() as connection:
        name = f"first-{int(manager.now())}"
        secret = manager.tokens.create(connection, name, Role.OPERATOR).secret
        manager.events.append(connection, "token.created", f"tokens/{name}", {"role": Role.OPERATOR, "by": "serve"})
    write_address(manager.folder, Address(url="", token=secret))
    return secret


def _address(manager: Manager, listening: Listening, port: int) -> Address:
    known = read_address(manager.folder)
    valid = known is not None and manager.tokens.find(known.token) is not None
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listening.host, listening.host)
    scheme = "http" if listening.certificate is None else "https"
    return Address(
        url=f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}",
        token=known.token if known is not None and valid else "",
        certificate="" if listening.certificate is None else str(listening.certificate.resolve()),
    )


def _socket(listening: Listening) -> socket.socket:
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    try:
        return socket.create_server((listening.host, listening.port), family=family, backlog=1024)
    except OSError as error:
        remedy = "choose another --port or --host"
        raise InputError(
            f"cannot listen at {listening.host}:{listening.port}: {error.strerror}", remedy=remedy
        ) from error
