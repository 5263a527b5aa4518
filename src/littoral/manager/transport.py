"""What both clients have in common: how requests are sent, and what is said when nobody answers."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any, TypeVar, get_args, get_type_hints

from littoral.errors import LittoralError, MissingExtra
from littoral.manager.answers import StreamReader
from littoral.manager.calls import Call
from littoral.manager.parcels import BINARY
from littoral.manager.streams import Stream

M = TypeVar("M", bound=Callable[..., Any])

_TIMEOUT_S = 150.0  # plans take up to two minutes


def httpx_() -> Any:
    """The library, which comes with an extra."""
    try:
        import httpx
    except ImportError as error:
        raise MissingExtra("httpx", "serve", "talking to a manager") from error
    return httpx


def settings(url: str, token: str, certificate: str) -> dict[str, Any]:
    """Of a client. Proxies of the environment are left alone: managers are near."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    verify: Any = True
    if certificate:
        import ssl

        verify = ssl.create_default_context(cafile=certificate)
    return {"base_url": url, "headers": headers, "timeout": _TIMEOUT_S, "verify": verify, "trust_env": False}


def request_of(call: Call[Any]) -> dict[str, Any]:
    """A call as httpx wants it."""
    headers = {"Idempotency-Key": call.key} if call.key else {}
    request = {"method": call.method, "url": call.path, "params": dict(call.params), "headers": headers}
    if call.content is not None:
        return {**request, "content": call.content, "headers": {**headers, "Content-Type": BINARY}}
    return request if call.body is None else {**request, "json": call.body}


def opening(stream: Stream[Any], reader: StreamReader) -> dict[str, Any]:
    """The request that opens a stream, after the last event that was seen. It says every 15 s that it lives."""
    request = request_of(stream.call)
    headers = {} if reader.last is None else {"Last-Event-ID": reader.last}
    return {**request, "headers": headers, "timeout": httpx_().Timeout(60.0)}


def described(method: M, make: Callable[..., Call[Any]]) -> M:
    """A client's method with the name, the parameters and the docstring of the function that makes its calls."""
    method.__name__ = method.__qualname__ = make.__name__
    method.__doc__ = make.__doc__
    told = signature(make)
    me = Parameter("self", Parameter.POSITIONAL_ONLY)
    answer = get_args(get_type_hints(make)["return"])[0]
    shown = told.replace(parameters=[me, *told.parameters.values()], return_annotation=answer)
    method.__signature__ = shown  # type: ignore[attr-defined]
    return method


def unreachable(url: object, error: Exception) -> LittoralError:
    """Nobody answers."""
    return LittoralError(f"no manager answers at {url}: {error or type(error).__name__}; start one: littoral serve")
