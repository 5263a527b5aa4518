"""What no schema thinks of: no token, names that climb, bodies that lie about their length, NaN, slow senders."""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import numpy as np

from littoral.manager.address import Address
from littoral.manager.parcels import Head, pack_samples
from served import BINARY, client_of

CLIMBING = [
    "../../etc", "..", ".", "%2e%2e", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..%5c..%5cwindows", "%00", "digits%00.txt",
    "%2fetc%2fpasswd", "//etc/passwd", "a" * 5000, quote("日本語"), quote("\u202edigits"), "digits/../../..", "%ff%fe",
    "-rf", ".strikes.json", "digits%0d%0aX-Evil:%201", "con:", "~root",
]  # fmt: skip
DEEP = b"[" * 100_000
READS_BY_POST = "/models/{name}/predict"


class Probe:
    """Sends, and notes what should not have been answered so."""

    def __init__(self, address: Address) -> None:
        self.address, self.counts, self.wrong = address, Counter[str](), []
        self.host, self.port = urlsplit(address.url).hostname, urlsplit(address.url).port

    def expect(self, kind: str, status: int, allowed: range | set[int], what: str, answer: Any = None) -> None:
        """One answer, which must have one of the statuses, and if it refuses, a reason."""
        self.counts[kind] += 1
        if status not in allowed:
            self.wrong.append(f"{kind}: {status} to {what}")
        elif answer is not None and status >= 400 and not answer.json().get("detail"):
            self.wrong.append(f"{kind}: no reason for {status} to {what}")

    def raw(self, content: bytes, timeout_s: float = 20.0) -> int:
        """The status of what is answered to bytes; 0: the connection was closed without an answer."""
        with socket.create_connection((self.host, self.port), timeout=timeout_s) as connection:
            try:
                connection.sendall(content)
                line = connection.recv(65536).split(b"\r\n")[0].split(b" ")
            except ConnectionError:
                return 0
        return int(line[1]) if len(line) > 1 else 0

    def request(self, method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
        """A request as bytes, which no library would send."""
        lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {self.address.token}", *headers]
        if not any(line.lower().startswith(("content-length", "transfer-encoding")) for line in headers):
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + body


def probe(address: Address, secrets: dict[str, str], data: Path) -> tuple[dict[str, int], list[str]]:
    """All probes; how many requests of each kind, and what was wrong."""
    at = Probe(address)
    document = httpx.get(f"{address.url}/openapi.json", trust_env=False).json()
    operations = [(method, path) for path, methods in document["paths"].items() for method in methods]
    before = _places(data)
    _unauthenticated(at, operations, secrets)
    _climbing(at, operations)
    _documents(at)
    _large(at)
    _pixels(at)
    _odd_bodies(at, operations)
    _headers(at)
    _slow(at)
    if _places(data) - before:
        at.wrong.append(f"places that were not there before: {_places(data) - before}")
    return dict(at.counts), at.wrong


def _places(data: Path) -> set[str]:
    """Everything beside the data folder and at the top of it."""
    return {path.name for path in (*data.parent.iterdir(), *data.iterdir()) if not path.name.startswith("littoral.db")}


def _address(path: str, name: str = "digits") -> str:
    return path.replace("{name}", name).replace("{number}", "1").replace("{continuum}", "bench")


def _unauthenticated(at: Probe, operations: list[tuple[str, str]], secrets: dict[str, str]) -> None:
    tokens = {"no token": "", "junk": "Bearer lit_000000000000_" + "A" * 43, "basic": "Basic YTpi", "viewer": ""}
    with httpx.Client(base_url=at.address.url, trust_env=False, timeout=60) as client:
        for method, path in operations:
            if method == "get" or path == READS_BY_POST:
                continue
            for who, header in tokens.items():
                sent = {"Authorization": f"Bearer {secrets['viewer']}" if who == "viewer" else header}
                answer = client.request(method, _address(path), json={}, headers=sent if sent["Authorization"] else {})
                at.expect("write " + who, answer.status_code, {403 if who == "viewer" else 401}, f"{method} {path}")


def _climbing(at: Probe, operations: list[tuple[str, str]]) -> None:
    for method, path in operations:
        if "{name}" in path or "{number}" in path:
            for name in CLIMBING:
                line = path.replace("{name}", name).replace("{number}", name)
                status = at.raw(at.request(method.upper(), f"{line}", b"{}", "Content-Type: application/json"))
                at.expect("climbing names", status, {0, *range(400, 500)}, f"{method} {line[:80]}")


def _documents(at: Probe) -> None:
    """Names within documents."""
    job: dict[str, Any] = {"continuum": "bench", "task": "littoral.tasks.digits", "strategy": "allreduce"}
    tasks: list[Any] = [
        {"name": "littoral.tasks.stored", "folder": "/etc"}, {"name": "littoral.tasks.digits", "folder": "../.."},
        "os:system", "littoral.tasks.digits:__import__", {"name": "littoral.tasks.digits", "model": "/etc/passwd"},
    ]  # fmt: skip
    jobs = [{**job, "task": task} for task in tasks]
    jobs += [{**job, "continuum": name} for name in ("../../etc/passwd", "/etc/passwd", "x" * 10_000, "a\0b", "")]
    jobs += [{**job, "profile": "../../secret"}, {**job, "strategy": "os:system"}, {**job, "strategy": {"name": "a/b"}}]
    continuum = {"sites": [{"name": "a"}], "devices": [{"name": "d", "site": "a", "kind": "t4"}]}
    traced = {**continuum, "links": [{"between": ["a", "a"], "bandwidth": "1 Gbit/s", "trace": "/etc/passwd"}]}
    crowd = {**continuum, "devices": [{"name": "d", "site": "a", "kind": "t4", "count": 10**9}]}
    with client_of(at.address) as client:
        for document in jobs:
            for path in ("/jobs", "/plans"):
                answer = client.post(path, json={"job": document})
                at.expect(
                    "climbing documents", answer.status_code, range(400, 500), f"{path} {str(document)[:80]}", answer
                )
        for document in (traced, crowd):
            answer = client.put("/continuums/x", json=document)
            at.expect("climbing documents", answer.status_code, range(400, 500), str(document)[:80], answer)
        for file in ("../x", "/etc/cron.d/x", "training.csv/../../x"):
            answer = client.put("/profiles/x", json={"files": {file: "a"}})
            at.expect("climbing documents", answer.status_code, range(400, 500), file, answer)


def _large(at: Probe) -> None:
    large = 16 * 2**20 + 1
    for path in ("/stores/digits/samples", "/jobs", "/models/digits/versions", "/models/digits/predict"):
        status = at.raw(at.request("POST", path, b"", f"Content-Length: {large}"))
        at.expect("oversized", status, {413}, f"{path}, announced")
        chunk = b"%x\r\n" % 2**20 + bytes(2**20) + b"\r\n"
        status = at.raw(at.request("POST", path, chunk * 17, "Transfer-Encoding: chunked"))
        at.expect("oversized", status, {413, 0}, f"{path}, in chunks")
    with client_of(at.address) as client:
        many = {"samples": [{"input": [[[0.0] * 8] * 8]}] * 10_001}
        answer = client.post("/stores/digits/samples", json=many)
        at.expect("oversized", answer.status_code, {413, 422}, "10,001 samples", answer)


def _pixels(at: Probe) -> None:
    good = np.zeros((2, 1, 8, 8), np.float32)
    rows = [[0.0] * 8] * 8
    inputs: list[Any] = [
        [[[math.nan] * 8] * 8], [[["Infinity"] * 8] * 8], [[[True] * 8] * 8], [[[10**400] * 8] * 8], [rows, rows], rows,
        [], None, [[1], [1, 2]],
    ]  # fmt: skip
    others: list[dict[str, Any]] = [{"actual": 10}, {"actual": -1}, {"actual": True}, {"id": "a b"}, {"at": -1}]
    texts = ['{"samples": [{"input": [[[1e999]]]}]}', *(json.dumps({"samples": [{"input": one}]}) for one in inputs)]
    texts += [json.dumps({"samples": [{"input": [rows], **other}]}) for other in others]
    bodies = [good.tobytes()[:-1], b"", struct.pack("<I", 2**32 - 1) + b"{}"]
    for value in (np.nan, np.inf, -np.inf):
        bad = good.copy()
        bad[1, 0, 7, 7] = value
        bodies.append(pack_samples(Head(), bad))
    with client_of(at.address) as client:
        for text in texts:
            for path, body in (("/stores/digits/samples", text), ("/models/digits/predict", _as_inputs(text))):
                if body is not None:
                    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
                    at.expect("bad samples", answer.status_code, {422}, f"{path} {text[:70]}", answer)
        for content in bodies:
            answer = client.post("/stores/digits/samples", content=content, headers=BINARY)
            at.expect("bad samples", answer.status_code, {422}, f"{len(content)} bytes", answer)


def _as_inputs(text: str) -> str | None:
    """The same inputs, to be predicted; None where it is not the input that is wrong."""
    if '"actual"' in text or '"id"' in text or '"at"' in text:
        return None
    return text.replace('{"samples": [{"input": ', '{"inputs": [').replace("}]}", "]}")


def _odd_bodies(at: Probe, operations: list[tuple[str, str]]) -> None:
    bodies = {
        "depth": (DEEP, "application/json"), "deep object": (b'{"a":' * 50_000, "application/json"),
        "deep document": (b'{"job":' + b'{"a":' * 900 + b"1" + b"}" * 901, "application/json"),
        "half characters": (b'{"name": "\\ud800", "job": {"name": "\\udfff"}}', "application/json"),
        "not UTF-8": (b'{"name": "\xff\xfe"}', "application/json"), "NaN": (b'{"name": NaN}', "application/json"),
        "large number": (b'{"version": 1' + b"0" * 5000 + b"}", "application/json"),
        "plain": (b"name=x", "text/plain"), "form": (b"name=x", "application/x-www-form-urlencoded"),
        "multipart": (b"--x\r\n\r\n--x--", "multipart/form-data; boundary=x"), "XML": (b"<a/>", "application/xml"),
        "charset": (b"{}", "application/json; charset=utf-99"), "gzip": (b"\x1f\x8b\x08", "application/json"),
    }  # fmt: skip
    harmless = {"/models/{name}/rollback"}  # take no body
    with client_of(at.address) as client:
        for method, path in operations:
            if (
                method not in ("post", "put", "patch")
                or path in harmless
                or path.endswith(("/stop", "/resume", "/pardon", "/give-up"))
            ):
                continue
            for kind, (content, media) in bodies.items():
                answer = client.request(
                    method, _address(path, "nobody"), content=content, headers={"Content-Type": media}
                )
                if answer.status_code >= 500:
                    at.wrong.append(f"odd bodies: {answer.status_code} to {kind}, {method} {path}")
                at.counts["odd bodies"] += 1


def _headers(at: Probe) -> None:
    tricks = [
        at.request("GET", "/runs", b"", "Content-Length: 1", "Content-Length: 2"),
        at.request("POST", "/tokens", b"0\r\n\r\n", "Content-Length: 5", "Transfer-Encoding: chunked"),
        at.request("POST", "/tokens", b"", "Content-Length: -1"),
        at.request("POST", "/tokens", b"zz\r\n", "Transfer-Encoding: chunked"),
        at.request("GET", "/runs", b"", f"X-Long: {'a' * 200_000}"),
        at.request("GET", "/runs", b"", *[f"X-{i}: a" for i in range(5000)]),
        at.request("GET", "/runs", b"", "X-Fold: a\r\n b"),
        at.request("POST", "/stores", b"{}", f"Idempotency-Key: {'k' * 300}"),
        at.request("POST", "/stores", b"{}", "Idempotency-Key: \xff\xfe"),
        at.request("GET", "/events/stream", b"", f"Last-Event-ID: {'9' * 19}"),
        at.request("GET", "/events/stream", b"", "Last-Event-ID: -1"),
        at.request("GET", "/events/stream?until_now=true", b"", "Last-Event-ID: 999999999999999999"),
        at.request("get", "/runs"), at.request("BREW", "/runs"), at.request("GET", "http://elsewhere/runs"),
        at.request("GET", "/runs?" + "a=1&" * 20_000), at.request("GET", "/runs?after=" + "%00" * 50),
        at.request("TRACE", "/runs"), at.request("OPTIONS", "*"), at.request("CONNECT", "elsewhere:80"),
        b"GET /runs HTTP/1.1\r\n\r\n", b"GET /runs HTTP/9.9\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00", b"\0" * 100 + b"\r\n\r\n",
        b"GET /runs HTTP/1.0\r\nAuthorization: Bearer " + b"x" * 10_000 + b"\r\n\r\n",
    ]  # fmt: skip
    for content in tricks:
        try:
            status = at.raw(content, timeout_s=3.0)
        except TimeoutError:
            status = 0  # it waits for more, as it may
        at.expect("header tricks", status, {0, *range(200, 500)}, repr(content[:60]))


def _slow(at: Probe) -> None:
    """Two hundred senders that never get on with it; others must not notice."""
    slow = []
    for _ in range(200):
        connection = socket.create_connection((at.host, at.port), timeout=10)
        connection.sendall(at.request("POST", "/stores/digits/samples", b"{", "Content-Length: 1000"))
        slow.append(connection)
    waits = []
    with client_of(at.address, timeout_s=20) as client:
        for turn in range(30):
            for connection in slow[turn % 10 :: 10]:
                connection.sendall(b" ")
            began = time.monotonic()
            answer = client.get("/health" if turn % 2 else "/models/digits")
            waits.append(time.monotonic() - began)
            at.expect("beside slow senders", answer.status_code, {200, 404}, "a plain request")
    for connection in slow:
        connection.close()
    at.counts["slowest beside them, ms"] = round(1000 * max(waits))
    if max(waits) > 5:
        at.wrong.append(f"slow senders hold others up for {max(waits):.1f} s")
