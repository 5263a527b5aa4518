"""Logs: one JSON object per line, a request's id in log and answer, and neither token nor sample in any of it."""

from __future__ import annotations

import json
import logging
import signal
import sys
from pathlib import Path

import httpx
import pytest
from given import CONTINUUM
from test_serve import process

from littoral.errors import InputError
from littoral.manager.address import read_address
from littoral.manager.logs import REQUEST, JsonLines, TextLines, configure, without_secrets

SECRET = "lit_0123456789ab_" + "Zq" * 21 + "Z"


def test_no_token_leaves_a_formatter_and_errors_keep_their_trace() -> None:
    try:
        raise ValueError(f"Bearer {SECRET}")
    except ValueError:
        failed = logging.LogRecord("littoral", logging.ERROR, "", 0, "with %s", (SECRET,), sys.exc_info())
    before = REQUEST.set("request-7")
    try:
        text, line = TextLines().format(failed), json.loads(JsonLines().format(failed))
    finally:
        REQUEST.reset(before)
    assert "ZqZq" not in text + json.dumps(line) and "lit_0123456789ab_..." in text
    assert text.endswith("[request-7]") and line["request"] == "request-7"
    assert line["level"] == "error" and "ValueError" in line["error"] and line["time"].endswith("+00:00")
    assert without_secrets("plain") == "plain"


@pytest.mark.parametrize("words", [("jsn", "info"), ("json", "loud")])
def test_unknown_words_are_refused(words: tuple[str, str]) -> None:
    with pytest.raises(InputError, match="unknown way to log"):
        configure(*words)


def test_a_server_that_logs_everything_tells_no_secret_and_no_sample(tmp_path: Path) -> None:
    """Every line is an object. What was sent, tokens and pixels, good and bad, is in none of them."""
    pixel, odd = 0.7310585786, "lit_aaaaaaaaaaaa_" + "Secret9" * 7
    with process(tmp_path, "--log", "json", "--log-level", "debug", page=True) as server:
        address = read_address(tmp_path)
        assert address is not None and server.stderr is not None
        headers = {"Authorization": f"Bearer {address.token}", "X-Request-Id": "from-the-client-1"}
        with httpx.Client(base_url=address.url, headers=headers, trust_env=False) as client:
            kind = {"shape": [2, 2], "classes": 3, "dtype": "float32"}
            assert client.put("/continuums/bench", json=CONTINUUM).status_code == 200
            made = client.post("/stores", json={"name": "pixels", "input": kind})
            assert made.status_code == 201, made.text
            assert made.headers["x-request-id"] == "from-the-client-1"
            for sample in ([[pixel, 0], [0, 0]], [[pixel, 0, 1]], [["x", pixel], [0, 0]]):
                client.post("/stores/pixels/samples", json={"samples": [{"input": sample, "actual": 1}]})
            fresh = client.post("/tokens", json={"name": "camera", "role": "ingest"}).json()["secret"]
            client.get("/events", headers={"Authorization": f"Bearer {odd}", "X-Request-Id": "bad id\x7f"})
            client.get(f"/{odd}", params={"token": odd})
            client.get("/runs/1", params={"token": odd})
            assert len(client.get("/health", headers={"X-Request-Id": ""}).headers["x-request-id"]) == 32
        server.send_signal(signal.SIGTERM)
        rest = server.stderr.read()
        assert server.wait(30) == 0
    said = server.said + rest  # type: ignore[attr-defined]
    lines = [json.loads(line) for line in said.splitlines()]
    for secret in (address.token.split("_", 2)[2], fresh.split("_", 2)[2], "Secret9", str(pixel)[:8]):
        assert secret not in said, [line for line in said.splitlines() if secret in line]
    requests = [line for line in lines if line["logger"] == "littoral.manager.observing"]
    created = next(line for line in requests if line["route"] == "/stores" and line["status"] == 201)
    assert created["request"] == "from-the-client-1" and created["level"] == "info" and created["seconds"] > 0
    assert any(line["route"] == "/stores/{name}/samples" and line["level"] == "debug" for line in requests)
    assert any(line["status"] == 404 and line["path"] == "" for line in requests)
    assert any("client.json" in line["message"] for line in lines), "where the first token is, and not what it is"


def test_what_breaks_is_logged_with_its_id_and_told_as_a_problem(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from serving import serving

    with serving(tmp_path) as served, served.client() as client:
        served.manager.events.listed = None  # type: ignore[assignment,method-assign]  # something is wrong in us
        answer = client.get("/events", headers={"X-Request-Id": "the-one-that-broke"})
        assert answer.status_code == 500 and answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["x-request-id"] == "the-one-that-broke" and "NoneType" not in answer.text
    broken = [record for record in caplog.records if record.exc_info]
    assert len(broken) == 1 and "GET /events failed" in broken[0].getMessage()
