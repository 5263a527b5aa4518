"""YAML files from anybody: read key by key, placed complaints, and nothing that harms or hangs."""

import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from littoral.document import Section, parse_document, read_document, suggest
from littoral.errors import Infeasible, InputError, LittoralError, MissingExtra, brief

HERE = Path("file.yaml")


def parse(text: str) -> Section:
    return parse_document(text, HERE)


def refusal(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert caught.value.file == HERE and caught.value.remedy
    return caught.value


def test_values_are_plain() -> None:
    top = parse("a: 1\nb: [x, 2.5, null, true]\nc: {d: 1e-3, e: 1E5, f: '1e3', on: off}\n")
    assert top.value("a") == 1
    assert top.value("b") == ["x", 2.5, None, True]
    inner = top.section("c")
    assert inner is not None and [inner.value(key) for key in ("d", "e", "f")] == [1e-3, 1e5, "1e3"]
    assert inner.keys() == ["d", "e", "f", "on"]
    assert top.value("z", 7) == 7 and "z" not in top


def test_aliases_repeat_values() -> None:
    top = parse("a: &x [1, 2]\nb: *x\n")
    assert top.value("b") == [1, 2]


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("", 1, "the file is empty"),
        ("# only a comment\n", 1, "the file is empty"),
        ("- a\n- b\n", 1, "no mapping here"),
        ("just text\n", 1, "no mapping here"),
        ("a: [1, 2\nb: 3\n", 2, "YAML syntax"),
        ("a: 'open\n", 2, "YAML syntax"),
        ("a: 1\n\tb: 2\n", 2, "YAML syntax"),
        ("a: b: c\n", 1, "YAML syntax"),
        ("a: *nowhere\n", 1, "YAML syntax"),
        ("a: 1\n---\nb: 2\n", 2, "YAML syntax"),
        ("a: \x00\n", 1, "YAML syntax"),
        ("a: \x07\n", 1, "YAML syntax"),
        ("a: 1\nb: 2\na: 3\n", 3, "key 'a' is given twice"),
        ("a: {b: {c: 1, c: 2}}\n", 1, "key 'c' is given twice"),
        ("x: &m {a: 1}\ny:\n  <<: *m\n", 3, "'<<' is not understood here"),
        ("a: 1\n[1, 2]: 3\n", 2, "a key is not text"),
        ("a: {{b}}\n", 1, "a key is not text"),
        ("a: 1\nb: !!python/object:os.system {x: 1}\n", 2, "tag '!!python/object:os.system' is not accepted"),
        ("a: !!python/object/apply:os.system ['true']\n", 1, "is not accepted"),
        ("a: !!python/name:os.system\n", 1, "is not accepted"),
        ("a: !mine 3\n", 1, "the tag '!mine' is not accepted"),
        ("a: !!binary aGVsbG8=\n", 1, "the tag '!!binary' is not accepted"),
        ("a: !!set {x, y}\n", 1, "the tag '!!set' is not accepted"),
        ("!!python/object:x\na: 1\n", 1, "is not accepted"),
        ("a: &r [1, *r]\n", 1, "stands inside what it repeats"),
        ("a: &r {b: {c: *r}}\n", 1, "stands inside what it repeats"),
        ("a: " + "[" * 1000 + "]" * 1000, 1, "levels of nesting"),
        ("a: " + "[" * 200_000, 1, "levels of nesting"),
        ("a: " + "{a: " * 200_000, 1, "levels of nesting"),
        ("a:\n" + "- " * 200_000 + "x", 2, "levels of nesting"),
    ],
)  # fmt: skip
def test_what_is_no_plain_document(text: str, line: int, found: str) -> None:
    error = refusal(text)
    assert found in str(error) and error.line == line, str(error)
    assert len(str(error).splitlines()) == 1


def test_an_alias_bomb_is_refused_at_once() -> None:
    layers = "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]\n" for i in range(1, 20))
    error = refusal("l0: &l0 [lol, lol]\n" + layers)
    assert "aliases repeat more than" in str(error)


def test_a_long_file_is_read() -> None:
    top = parse("a:\n" + "- {x: 1, y: 2}\n" * 5_000)
    assert sum(1 for _ in top.sections("a")) == 5_000


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\"#%@ \n\t\\,?<=0.e"), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        top = parse(text)
    except InputError as error:
        assert error.line is not None and error.remedy
    else:
        for key in top.keys():  # noqa: SIM118
            try:
                top.value(key)
            except InputError as error:
                assert error.line is not None


# -- reading keys ----------------------------------------------------------------------------------


def test_an_unknown_key_is_answered_with_the_nearest() -> None:
    top = parse("name: x\n\nstratgy: y\n")
    top.text("name"), top.text("strategy", "auto")
    with pytest.raises(InputError, match=r"file.yaml:3: unknown key 'stratgy'; did you mean 'strategy'\?"):
        top.close()


def test_a_missing_key_says_what_to_add() -> None:
    with pytest.raises(InputError, match=r"file.yaml:1: key 'task' is missing; add 'task: ...'"):
        parse("a: 1\n").text("task")
    with pytest.raises(InputError, match=r"file.yaml:2: unknown key 'taks'; did you mean 'task'\?"):
        parse("a: 1\ntaks: x\n").text("task")


@pytest.mark.parametrize(
    ("reader", "text", "found"),
    [
        ("text", "7", "expected text, found 7; put it in quotes"),
        ("text", "[a]", "expected text, found ['a']; give text"),
        ("text", "''", "expected text, found ''"),
        ("texts", "[a, 3]", "expected text, found 3"),
        ("number", "x", "expected a number, found 'x'"),
        ("number", "true", "expected a number, found True"),
        ("number", "-1", "-1 is out of range; give a number at least 0"),
        ("number", ".nan", "expected a number, found nan"),
        ("number", ".inf", "inf is out of range"),
        ("number", "1e999", "inf is out of range"),
        ("number", "0x" + "f" * 5000, "a huge number is out of range"),
        ("integer", "1.5", "expected a whole number, found 1.5"),
        ("integer", "true", "expected a whole number, found True"),
        ("integer", "-1", "-1 is too small; give at least 0"),
        ("integer", "0x" + "f" * 5000, "a huge number is too large"),
        ("integer", "9" * 5000, "not a plain value"),
        ("flag", "1", "expected true or false, found 1"),
        ("section", "3", "expected a mapping"),
    ],
)
def test_wrong_types(reader: str, text: str, found: str) -> None:
    with pytest.raises(InputError) as caught:
        getattr(parse(f"\nkey: {text}\n"), reader)("key")
    assert found in str(caught.value) and caught.value.line == 2, str(caught.value)


def test_right_types() -> None:
    top = parse("t: a\nts: a\nn: 1e-3\ni: 0\nf: false\nx: a.b-1\n")
    values = (top.text("t"), top.texts("ts"), top.number("n"), top.integer("i"), top.flag("f"), top.name("x"))
    assert values == ("a", ("a",), 0.001, 0, False, "a.b-1")
    assert list(top.sections("none")) == [] and top.section("none") is None


def test_suggest() -> None:
    assert suggest("bandwith", ["bandwidth", "latency"]) == "did you mean 'bandwidth'?"
    assert suggest("q", ["b", "a"]) == "known: a, b"
    assert suggest("q", []) == "known: none"
    assert suggest("q", [f"n{i:02}" for i in range(40)]).endswith("n11 and 28 more")


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda path: None, "there is no such file"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00\x80"), "not a text file"),
        (lambda path: path.write_bytes(b"\x7fELF\x00\x00"), "YAML syntax"),
        (lambda path: path.write_bytes(b""), "the file is empty"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read(tmp_path: Path, make: object, found: str) -> None:
    path = tmp_path / "job.yaml"
    make(path)  # type: ignore[operator]
    with pytest.raises(InputError, match=found) as caught:
        read_document(path)
    assert caught.value.file == path and caught.value.remedy


# -- errors ----------------------------------------------------------------------------------------


def test_brief_is_short_whatever_the_value() -> None:
    bomb: list[object] = ["x"]
    for _ in range(60):
        bomb = [bomb] * 10
    for value in ("x" * 10**6, list(range(10**6)), bomb, {"a": bomb}, 10**5000, [10**5000]):
        assert len(brief(value)) < 400
    assert brief("a'b") == '"a\'b"'


def test_a_message_is_one_line() -> None:
    assert str(InputError("a\nb", file="x\ny", line=1, remedy="c\r\nd")) == "x y:1: a b; c d"


def test_a_placed_error_keeps_its_place() -> None:
    error = InputError("found", remedy="do").at("a.yaml", 3)
    assert str(error) == "a.yaml:3: found; do" and error.at("b.yaml", 4) is error


@pytest.mark.parametrize(
    "error",
    [
        InputError("found", file="a.yaml", line=3, remedy="do", key="links"),
        MissingExtra("torch", "train", "training"),
        Infeasible("the deadline binds"),
    ],
)
def test_errors_travel_between_processes(error: LittoralError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and str(copy) == str(error) and vars(copy) == vars(error)
