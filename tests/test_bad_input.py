"""Whatever is wrong with a file: one line with place, finding and remedy, exit code 2, nothing written."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from littoral import cli

CONTINUUM = """\
name: two
sites: [{name: plant}, {name: region, tier: cloud}]
devices:
- {name: nano-1, site: plant, kind: jetson-nano, count: 2}
- {name: gpu, site: region, kind: t4}
links:
- {between: [plant, plant], bandwidth: 1 Gbit/s}
- {between: [plant, region], bandwidth: 20 Mbit/s, latency: 10 ms}
apps:
- {name: sift, on: "nano-*", every: 1 s}
stores:
- {name: camera, site: plant, samples: 100}
"""
JOB = """\
continuum: continuum.yaml
task: littoral.tasks.digits
target: {accuracy: 0.9, epochs: 2}
strategy: {name: parameter_server, mode: asp}
planner: fair
faults:
- {at: 1 s, node: gpu, kind: slow-device}
"""
SOURCE = Path(cli.__file__).parents[1]
VERBS = ["check", "plan", "run"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "continuum.yaml").write_text(CONTINUUM)
    (tmp_path / "job.yaml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def command(verb: str, file: str = "job.yaml") -> list[str]:
    return [verb, file, "--out", "out"] if verb == "run" else [verb, file]


def littoral(*args: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["littoral", *args])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code if isinstance(ended.value.code, int) else 0


Answer = Callable[..., str]


@pytest.fixture
def answer(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Answer:
    """The one line on stderr with which a command refuses."""

    def ask(*args: str) -> str:
        before = sorted(folder.rglob("*"))
        code = littoral(*args, monkeypatch=monkeypatch)
        output = capsys.readouterr()
        lines = output.err.splitlines()
        assert code == 2, output
        assert output.out == ""
        assert len(lines) == 1 and lines[0].startswith("littoral: "), output.err
        assert "; " in lines[0] and "Traceback" not in lines[0] and len(lines[0]) < 600, lines[0]
        assert sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts) == before
        return lines[0]

    return ask


def expect(answer: Answer, verb: str, place: str, parts: tuple[str, ...]) -> None:
    line = answer(*command(verb))
    assert line.startswith(f"littoral: {place}: "), line
    assert all(part in line for part in parts), line


def edit(file: str, old: str, new: str) -> None:
    text = Path(file).read_text()
    assert old in text
    Path(file).write_text(text.replace(old, new, 1))


def test_the_files_are_good_to_begin_with(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("check", "plan"):
        assert littoral(verb, "job.yaml", monkeypatch=monkeypatch) == 0, capsys.readouterr().err
    assert littoral("check", "continuum.yaml", monkeypatch=monkeypatch) == 0


CONTINUUM_CASES = [
    # syntax and structure
    ("name: two", "name: [two", 2, ("YAML syntax",)),
    ("name: two", "nmae: two", 1, ("unknown key 'nmae'", "did you mean 'name'?")),
    ("name: two", "name: two\nname: three", 2, ("key 'name' is given twice", "keep one")),
    (
        "name: two",
        "name: !!python/object/apply:os.system ['touch hacked']",
        1,
        ("!!python/object", "not accepted"),
    ),
    ("name: two", "name: two\nstors: []", 2, ("unknown key 'stors'", "did you mean 'stores'?")),
    ("kind: t4", "kind: t4, kind: t4", 5, ("key 'kind' is given twice",)),
    # devices
    ("kind: t4", "knid: t4", 5, ("unknown key 'knid'", "did you mean 'kind'?")),
    ("kind: t4", "kind: t4, memroy: 4 GB", 5, ("unknown key 'memroy'", "did you mean 'memory'?")),
    ("kind: t4", "kind: t44", 5, ("unknown device kind 't44'", "did you mean 't4'?")),
    ("kind: t4", "kind: [t4]", 5, ("expected text",)),
    ("site: region", "site: reigon", 5, ("unknown site 'reigon'", "did you mean 'region'?")),
    ("kind: t4", "kind: t4, memory: -4 GB", 5, ("memory: '-4 GB' is negative",)),
    ("kind: t4", "kind: t4, jitter: .nan", 5, ("jitter: expected a number, found nan",)),
    ("kind: t4", "kind: t4, memory: .nan", 5, ("memory: nan is not a size",)),
    ("kind: t4", "kind: t4, jitter: -1", 5, ("jitter: -1 is out of range",)),
    ("count: 2", "count: 1000000000", 4, ("count: 1000000000 is too large",)),
    # links
    ("bandwidth: 20 Mbit/s", "bandwidth: 20", 8, ("bandwidth: 20 has no unit", "'20 Mbit/s'")),
    ("bandwidth: 20 Mbit/s", "bandwidth: 20 Mb/s", 8, ("'Mb/s'", "'Mbit/s' if you mean bits")),
    ("bandwidth: 20 Mbit/s", "bandwidth: -20 Mbit/s", 8, ("negative",)),
    ("bandwidth: 20 Mbit/s", "bandwidth: .inf", 8, ("bandwidth: inf is not a rate",)),
    ("bandwidth: 20 Mbit/s", "bandwith: 20 Mbit/s", 8, ("'bandwith'", "did you mean 'bandwidth'?")),
    ("latency: 10 ms", "latncy: 10 ms", 8, ("unknown key 'latncy'", "did you mean 'latency'?")),
    ("bandwidth: 20 Mbit/s", "trace: nowhere.csv", 8, ("nowhere.csv", "check the path")),
    # apps and stores
    ("every: 1 s", "every: 1 s, deadlin: 1 s", 10, ("unknown key 'deadlin'", "did you mean 'deadline'?")),
    ("every: 1 s", "every: 1", 10, ("every: 1 has no unit",)),
    ('on: "nano-*"', "on: pico-*", 10, ("no device matches 'pico-*'",)),
    ("site: plant, samples", "site: plnt, samples", 12, ("unknown site 'plnt'", "did you mean 'plant'?")),
    ("name: camera", "name: gpu", 12, ("store 'gpu' has the name of a device",)),
]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("old", "new", "line", "parts"), CONTINUUM_CASES, ids=[case[1] for case in CONTINUUM_CASES])
def test_a_wrong_continuum(answer: Answer, verb: str, old: str, new: str, line: int, parts: tuple[str, ...]) -> None:
    edit("continuum.yaml", old, new)
    expect(answer, verb, f"continuum.yaml:{line}", parts)


@pytest.mark.parametrize(("old", "new", "line", "parts"), CONTINUUM_CASES, ids=[case[1] for case in CONTINUUM_CASES])
def test_checking_the_continuum_alone(answer: Answer, old: str, new: str, line: int, parts: tuple[str, ...]) -> None:
    edit("continuum.yaml", old, new)
    assert answer("check", "continuum.yaml").startswith(f"littoral: continuum.yaml:{line}: ")


JOB_CASES = [
    ("task: littoral", "task littoral", 3, ("YAML syntax",)),
    ("planner: fair", "planer: fair", 5, ("unknown key 'planer'", "did you mean 'planner'?")),
    ("accuracy: 0.9", "acuracy: 0.9", 3, ("unknown key 'acuracy'", "did you mean 'accuracy'?")),
    ("kind: slow-device", "kind: slow-device, facotr: 1", 7, ("'facotr'", "did you mean 'factor'?")),
    ("accuracy: 0.9", "accuracy: 1.5", 3, ("1.5 is not a reachable accuracy", "0.95")),
    ("accuracy: 0.9", "accuracy: 0", 3, ("0 is not a reachable accuracy",)),
    ("accuracy: 0.9", "accuracy: -0.5", 3, ("not a reachable accuracy",)),
    ("accuracy: 0.9", "accuracy: high", 3, ("'high' is not a fraction",)),
    ("epochs: 2", "epochs: 0", 3, ("epochs: 0 is too small", "at least 1")),
    ("epochs: 2", "epochs: -1", 3, ("epochs: -1 is too small",)),
    ("epochs: 2", "epochs: .nan", 3, ("epochs: expected a whole number",)),
    ("planner: fair", "planner: fair\nplanner: auto", 6, ("key 'planner' is given twice",)),
    ("planner: fair", "workers: pico-*", 5, ("workers: no device matches 'pico-*'",)),
    ("planner: fair", "servers: [gpv]", 5, ("servers: no device matches 'gpv'", "did you mean 'gpu'?")),
    ("node: gpu", "node: gpz", 7, ("unknown node 'gpz'", "did you mean 'gpu'?")),
    ("at: 1 s", "at: 1", 7, ("at: 1 has no unit", "'40 ms'")),
    ("kind: slow-device", "kind: explode", 7, ("kind: 'explode' is unknown",)),
    ("continuum.yaml", "nowhere.yaml", 1, ("nowhere.yaml: there is no such file", "check the path")),
    ("continuum.yaml", ".", 1, ("Is a directory",)),
    ("planner: fair", "limits: {cost: 2}", 5, ("cost: 2 has no unit", "'2 USD'")),
    ("planner: fair", "planner: !!python/name:os.system", 5, ("not accepted",)),
    # what only the task, strategy or planner can tell
    ("littoral.tasks.digits", "littoral.tasks.digit", 2, ("did you mean 'littoral.tasks.digits'?",)),
    ("littoral.tasks.digits", "no_such_module:Task", 2, ("no module no_such_module",)),
    ("littoral.tasks.digits", "json:loads_all", 2, ("no attribute 'loads_all'",)),
    ("littoral.tasks.digits", "{name: littoral.tasks.digits, widht: 2}", 2,
     ("no option 'widht'", "did you mean 'width'?")),
    ("littoral.tasks.digits", "{name: littoral.tasks.digits, lr: fast}", 2, ("lr",)),
    ("parameter_server", "parameter_sever", 4,
     ("unknown strategy 'parameter_sever'", "did you mean 'parameter_server'?")),
    ("mode: asp", "mod: asp", 4, ("no parameter 'mod'", "did you mean 'mode'?")),
    ("mode: asp", "mode: fast", 4, ("mode is 'fast'",)),
]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("old", "new", "line", "parts"), JOB_CASES, ids=[case[1] for case in JOB_CASES])
def test_a_wrong_job(answer: Answer, verb: str, old: str, new: str, line: int, parts: tuple[str, ...]) -> None:
    edit("job.yaml", old, new)
    expect(answer, verb, f"job.yaml:{line}", parts)


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_an_unknown_planner(answer: Answer, verb: str) -> None:
    edit("job.yaml", "planner: fair", "planner: fiar")
    expect(answer, verb, "job.yaml:5", ("unknown planner 'fiar'", "did you mean 'fair'?"))


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("link", "parts"),
    [
        ("- {between: [plant, region], bandwidth: 20 Mbit/s, latency: 10 ms}\n", ("[plant, region]",)),
        ("- {between: [plant, plant], bandwidth: 1 Gbit/s}\n", ("'plant'", "[plant, plant]")),
    ],
)
def test_a_missing_link_between_sites_in_use(answer: Answer, verb: str, link: str, parts: tuple[str, ...]) -> None:
    edit("job.yaml", "{name: parameter_server, mode: asp}", "allreduce")
    edit("continuum.yaml", link, "")
    expect(answer, verb, "continuum.yaml:6", parts)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("content", "place", "found"),
    [
        ("", "trace.csv:1", "empty"),
        ("t_s,mbps\n", "trace.csv:1", "empty"),
        ("t_s,mbps\n0,1\n2,1\n1,1\n", "trace.csv:4", "does not increase"),
        ("t_s,mbps\n0,1\n1,-1\n", "trace.csv:3", "mbps is '-1'"),
        ("t_s,mbps\n0,nan\n", "trace.csv:2", "mbps is 'nan'"),
        ("t_s,kbps\n0,1\n", "trace.csv:1", "no column 'mbps'"),
        ("t_s,mbps\n0,0\n", "continuum.yaml:8", "the rate is zero"),
        (None, "continuum.yaml:8", "trace.csv: cannot read it"),
    ],
)  # fmt: skip
def test_a_wrong_trace(answer: Answer, verb: str, content: str | None, place: str, found: str) -> None:
    edit("continuum.yaml", "bandwidth: 20 Mbit/s", "trace: trace.csv")
    if content is not None:
        Path("trace.csv").write_text(content)
    expect(answer, verb, place, (found,))


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("content", "place", "found"),
    [
        (b"", "job.yaml:1", "the file is empty"),
        (b"# nothing\n", "job.yaml:1", "the file is empty"),
        (b"- a\n- list\n", "job.yaml:1", "no mapping here"),
        (b"\x7fELF\x02\x01\x00\x00", "job.yaml:1", "YAML syntax"),
        (b"\xff\xfe\xfa", "job.yaml:1", "not a text file"),
        (b"a: " + b"[" * 100_000, "job.yaml:1", "levels of nesting"),
        (None, "job.yaml", "there is no such file"),
        ("folder", "job.yaml", "Is a directory"),
    ],
    ids=["empty", "comment", "list", "binary", "not-utf8", "deep", "missing", "directory"],
)
def test_no_job_file_at_all(answer: Answer, verb: str, content: bytes | str | None, place: str, found: str) -> None:
    Path("job.yaml").unlink()
    if content == "folder":
        Path("job.yaml").mkdir()
    elif isinstance(content, bytes):
        Path("job.yaml").write_bytes(content)
    expect(answer, verb, place, (found,))


def test_the_options_are_checked_like_the_file(answer: Answer) -> None:
    assert "did you mean 'allreduce'?" in answer("plan", "job.yaml", "--strategy", "allreduc")
    assert "did you mean 'fair'?" in answer("plan", "job.yaml", "--planner", "fiar")
    assert "did you mean 'mode'?" in answer("plan", "job.yaml", "--strategy", "parameter_server:mdoe=asp")


@pytest.mark.parametrize("verb", VERBS)
def test_a_task_module_that_is_broken(answer: Answer, verb: str) -> None:
    Path("broken_task.py").write_text("def (:\n")
    edit("job.yaml", "littoral.tasks.digits", "broken_task:Task")
    expect(answer, verb, "job.yaml:2", ("broken_task", "correct the module"))


@pytest.mark.parametrize("verb", VERBS)
def test_an_alias_bomb(answer: Answer, verb: str) -> None:
    layers = "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]\n" for i in range(1, 12))
    Path("job.yaml").write_text(f"l0: &l0 [lol]\n{layers}{JOB}workers: *l11\n")
    start = time.perf_counter()
    expect(answer, verb, "job.yaml:1", ("aliases repeat more than",))
    assert time.perf_counter() - start < 2


def test_a_large_continuum_is_read_in_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    devices = "".join(f"- {{name: d{i}, site: plant, kind: t4}}\n" for i in range(2000))
    edit("continuum.yaml", "links:\n", f"{devices}links:\n")
    start = time.perf_counter()
    assert littoral("check", "continuum.yaml", monkeypatch=monkeypatch) == 0
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("verb", VERBS)
def test_a_real_process_answers_the_same(folder: Path, verb: str) -> None:
    edit("continuum.yaml", "name: two", "name: !!python/object/apply:os.system ['touch hacked']")
    words = [sys.executable, "-m", "littoral", *command(verb)]
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and done.stdout == "", done
    assert done.stderr.startswith("littoral: continuum.yaml:1: the tag '!!python/object/apply:os.system'")
    assert len(done.stderr.splitlines()) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["continuum.yaml", "job.yaml"]
