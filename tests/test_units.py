"""Quantities: every unit converts and comes back, nothing else is taken for one, and complaints help."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from littoral import units
from littoral.errors import InputError

settings.register_profile("unhurried", deadline=None)  # machines are shared
settings.load_profile("unhurried")

KINDS = {
    "duration": units.SECONDS,
    "size": units.BYTES,
    "rate": units.BYTES_PER_S,
    "price per time": units.USD_PER_S,
    "price per byte": units.USD_PER_BYTE,
    "money": units.USD,
    "speed": units.FLOPS,
    "sample rate": units.SAMPLES_PER_S,
    "fraction": units.FRACTION,
}
PAIRS = [(kind, unit) for kind, table in KINDS.items() for unit in table]
ALL_UNITS = sorted({unit for _, unit in PAIRS})
finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e200, max_value=1e200)


@given(pair=st.sampled_from(PAIRS), number=finite, gap=st.sampled_from(["", " ", "\t", "  "]))
def test_every_unit_converts(pair: tuple[str, str], number: float, gap: str) -> None:
    kind, unit = pair
    assert units.parse(f" {number!r}{gap}{unit} ", kind) == pytest.approx(number * KINDS[kind][unit], rel=1e-14)


@given(st.integers(0, 100))
def test_percents_are_exact(number: int) -> None:
    assert units.fraction(f"{number} %") == float(f"{number}e-2")


@given(kind=st.sampled_from(sorted(KINDS)), number=finite)
def test_si_floats_come_back_to_the_last_bit(kind: str, number: float) -> None:
    unit = next(unit for unit, factor in KINDS[kind].items() if factor == 1.0)
    assert units.parse(f"{number!r} {unit}", kind) == number


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("40 ms", "duration", 0.04),
        ("30 min", "duration", 1800.0),
        ("1_500 us", "duration", 0.0015),
        (".5 h", "duration", 1800.0),
        ("5. s", "duration", 5.0),
        ("1e3 s", "duration", 1000.0),
        ("4 GiB", "size", 4 * 2.0**30),
        ("4 GB", "size", 4e9),
        ("20 Mbit/s", "rate", 2.5e6),
        ("20 Mbps", "rate", 2.5e6),
        ("20 MB/s", "rate", 2e7),
        ("8 Kibit/s", "rate", 1024.0),
        ("3.6 USD/h", "price per time", 0.001),
        ("0.09 USD/GB", "price per byte", 0.09 / 1e9),
        ("472 GFLOP/s", "speed", 4.72e11),
        ("500 samples/s", "sample rate", 500.0),
        ("30 %", "fraction", 0.3),
        (0.3, "fraction", 0.3),
        (1, "fraction", 1.0),
        (0, "duration", 0.0),
        ("0", "rate", 0.0),
        ("-3 ms", "duration", -0.003),
    ],
)
def test_examples(text: object, kind: str, value: float) -> None:
    assert units.parse(text, kind) == pytest.approx(value, rel=1e-12)


@given(pair=st.sampled_from(PAIRS), wrong=st.sampled_from(ALL_UNITS))
def test_units_of_another_kind_are_refused(pair: tuple[str, str], wrong: str) -> None:
    kind, _ = pair
    if wrong not in KINDS[kind]:
        with pytest.raises(InputError, match="no unit" if wrong == "" else "not a unit of " + kind):
            units.parse(f"3 {wrong}", kind)


@given(pair=st.sampled_from(PAIRS), data=st.data())
def test_case_matters(pair: tuple[str, str], data: st.DataObject) -> None:
    kind, unit = pair
    swapped = data.draw(st.sampled_from([unit.lower(), unit.upper(), unit.swapcase(), unit.title()]))
    if swapped not in KINDS[kind]:
        with pytest.raises(InputError, match="is not a unit of"):
            units.parse(f"3 {swapped}", kind)


@given(text=st.text(max_size=30), kind=st.sampled_from(sorted(KINDS)))
def test_random_text_is_a_quantity_only_if_it_ends_in_a_unit(text: str, kind: str) -> None:
    try:
        value = units.parse(text, kind)
    except InputError as error:
        assert error.remedy
        assert "\n" not in str(error)
    else:
        assert math.isfinite(value)
        assert value == 0 or any(text.strip().endswith(unit) for unit in KINDS[kind])


@given(
    number=st.integers() | finite,
    kind=st.sampled_from([kind for kind in sorted(KINDS) if kind != "fraction"]),
)
def test_a_bare_number_is_refused(number: float, kind: str) -> None:
    if number != 0:
        with pytest.raises(InputError, match="has no unit"):
            units.parse(number, kind)
        with pytest.raises(InputError, match="has no unit"):
            units.parse(str(number), kind)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize(
    "value",
    [True, False, None, [], ["3 s"], {}, {"3": "s"}, b"3 s", object, math.nan, math.inf, -math.inf, "nan",
     "inf s", "", " ", "s", "MB", "1e400 s", "--3 s", "3 3 s", "0x10 s", "1,5 s", "1__0 s", "3 s s", "٣ s",
     pytest.param(10**5000, id="huge")],
)  # fmt: skip
def test_no_quantity(value: object, kind: str) -> None:
    with pytest.raises(InputError) as caught:
        units.parse(value, kind)
    assert f"write a {kind}" in caught.value.remedy
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("text", "parser", "hint"),
    [
        ("20 Mb/s", units.rate, "'Mbit/s' if you mean bits, 'MB/s' if you mean bytes"),
        ("20 mb/s", units.rate, "'Mbit/s' if you mean bits, 'MB/s' if you mean bytes"),
        ("20 MBps", units.rate, "'Mbit/s' if you mean bits, 'MB/s' if you mean bytes"),
        ("1 gbps", units.rate, "'Gbit/s' if you mean bits, 'GB/s' if you mean bytes"),
        ("20 MBit/s", units.rate, "did you mean 'Mbit/s'?"),
        ("20 mbit/s", units.rate, "did you mean 'Mbit/s'?"),
        ("20 Kbit/s", units.rate, "did you mean 'kbit/s'?"),
        ("20 MB", units.rate, "not a unit of rate but of size"),
        ("4 Gb", units.size, "sizes are in bytes: 'GB'"),
        ("4 Gbit", units.size, "sizes are in bytes: 'GB'"),
        ("4 gib", units.size, "sizes are in bytes: 'GiB'"),
        ("4 KB", units.size, "sizes are in bytes: 'kB'"),
        ("20 Mbit/s", units.size, "not a unit of size but of rate"),
        ("3 sec", units.duration, "ns, us, ms, s, min, h or d"),
        ("3 S", units.duration, "did you mean 's'?"),
        ("1 USD", units.price_per_time, "not a unit of price per time but of money"),
        ("1 usd/h", units.price_per_time, "did you mean 'USD/h'?"),
        ("1 EUR", units.money, "such as '2 USD'"),
        ("20", units.rate, "'20' has no unit; write a rate with its unit, such as '20 Mbit/s'"),
        ("high", units.fraction, "'high' is not a fraction; write a fraction such as 0.3 or '30 %'"),
    ],
)
def test_confusions_get_a_helpful_answer(text: str, parser: object, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        parser(text)  # type: ignore[operator]
    assert hint in str(caught.value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_fraction_is_between_0_and_1(number: float) -> None:
    if 0 <= number <= 1:
        assert units.fraction(number) == number
    else:
        with pytest.raises(InputError, match="between 0 and 1"):
            units.fraction(number)


def test_a_long_text_takes_no_time_and_no_room() -> None:
    with pytest.raises(InputError) as caught:
        units.rate("1 x" + " " * 1_000_000 + "y")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (1.89, "1.89 s"), (0.04, "40 ms"), (9000, "2.5 h"), (0.9999, "1 s"), (59.99, "1 min"),
     (2e-4, "200 us"), (86400, "1 d"), (1e9, "11574 d"), (-90, "-1.5 min"), (999.4e-6, "999 us"),
     (1e-9, "1 ns")],
)  # fmt: skip
def test_show_duration(seconds: float, text: str) -> None:
    assert units.show_duration(seconds) == text


def test_show_sizes_and_rates() -> None:
    assert [units.show_bytes(n) for n in (0, 999, 999_999, 4.2e6, 1e16)] == [
        "0 B",
        "999 B",
        "1 MB",
        "4.2 MB",
        "10000 TB",
    ]
    assert [units.show_rate(n) for n in (2.5e6, 1.25e8)] == ["20 Mbit/s", "1 Gbit/s"]


@given(st.floats(min_value=1e-3, max_value=1e10))
def test_what_is_shown_is_close_and_has_no_exponent(number: float) -> None:
    for show, parser in ((units.show_duration, units.duration), (units.show_rate, units.rate)):
        text = show(number)
        assert "e" not in text.split()[0]
        assert parser(text) == pytest.approx(number, rel=0.006)
