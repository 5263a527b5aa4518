"""A manager on a folder of its own, its service over a real socket, and a client for each role."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn

from littoral.manager.manager import Manager, ManagerOptions
from littoral.manager.service import make_app
from littoral.manager.tokens import Role


@dataclass
class Served:
    """A running service."""

    manager: Manager
    url: str
    secrets: dict[Role, str]

    def client(self, role: Role | None = Role.OPERATOR) -> httpx.Client:
        headers = {} if role is None else {"Authorization": f"Bearer {self.secrets[role]}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False)


@contextmanager
def serving(
    folder: Path, options: ManagerOptions = ManagerOptions(), secrets: dict[Role, str] | None = None
) -> Iterator[Served]:
    """A manager's service on a socket of loopback, until the block ends."""
    manager = Manager(folder, options)
    if secrets is None:
        with manager.database.write() as connection:
            secrets = {role: manager.tokens.create(connection, role, role).secret for role in Role}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(make_app(manager), log_config=None, timeout_graceful_shutdown=5))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            _wait(url, thread)
            yield Served(manager, url, secrets)
        finally:
            manager.closing.set()
            server.should_exit = True
            thread.join()


def _wait(url: str, thread: threading.Thread) -> None:
    while thread.is_alive():
        try:
            if httpx.get(f"{url}/health", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
    raise RuntimeError("the service did not start")
