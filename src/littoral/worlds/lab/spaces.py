"""Network namespaces, by system call: made, entered, removed. Named as ``ip netns`` names them, so it sees them too."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

FOLDER = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_MS_BIND, _MS_REC, _MS_SHARED = 0x1000, 0x4000, 0x100000
_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)
T = TypeVar("T")


def join(path: str) -> None:
    """Put the calling thread into the network namespace at ``path``."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("setns", path, fd, _CLONE_NEWNET)
    finally:
        os.close(fd)


def inside(path: str, act: Callable[[], T]) -> T:
    """What ``act`` returns when a thread inside the namespace calls it; sockets it opens stay there."""

    def there() -> T:
        if path:
            join(path)
        return act()

    return _in_thread(there)


def create(name: str) -> str:
    """A new, empty network namespace; its path."""
    _share_folder()
    path = FOLDER / name
    path.touch(exist_ok=False)

    def make() -> None:
        _call("unshare", name, _CLONE_NEWNET)
        _mount("/proc/thread-self/ns/net", str(path), _MS_BIND)

    try:
        _in_thread(make)
    except OSError:
        path.unlink()
        raise
    return str(path)


def remove(name: str) -> None:
    """Forget a namespace; it ends when the last process in it does."""
    path = FOLDER / name
    _libc.umount2(os.fsencode(path), _MNT_DETACH)  # fails where making it was interrupted before the mount
    path.unlink(missing_ok=True)


def named(prefix: str) -> list[str]:
    """The namespaces whose name starts so."""
    return sorted(path.name for path in FOLDER.glob(f"{prefix}*"))


def _in_thread(act: Callable[[], T]) -> T:
    """Namespaces belong to threads: one that ends at once leaves the caller where it was."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act).result()


def _share_folder() -> None:
    """Mounts below the folder must reach other mount namespaces, or a namespace could never be removed there."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        _mount("", str(FOLDER), _MS_SHARED | _MS_REC)
    except OSError as error:
        if error.errno != errno.EINVAL:  # which says: not a mount point yet
            raise
        _mount(str(FOLDER), str(FOLDER), _MS_BIND | _MS_REC)
        _mount("", str(FOLDER), _MS_SHARED | _MS_REC)


def _mount(source: str, target: str, flags: int) -> None:
    _call("mount", target, os.fsencode(source), os.fsencode(target), b"none", ctypes.c_ulong(flags), None)


def _call(function: str, where: str, *arguments: object) -> None:
    if getattr(_libc, function)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{function}: {os.strerror(code)}", where)
