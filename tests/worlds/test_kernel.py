from __future__ import annotations

import pytest

from littoral.worlds.simulated.kernel import Kernel, Mailbox, park, sleep


def test_sleep_wakes_at_the_exact_time() -> None:
    kernel, log = Kernel(), []

    async def program() -> None:
        await sleep(2.0)
        log.append(kernel.now)
        await sleep(0.5)
        log.append(kernel.now)

    kernel.spawn(program())
    kernel.run()
    assert log == [2.0, 2.5]


def test_ties_run_in_the_order_they_were_scheduled() -> None:
    kernel, log = Kernel(), []

    async def program(name: str) -> None:
        for _ in range(3):
            await sleep(1.0)
            log.append((kernel.now, name))

    for name in "abc":
        kernel.spawn(program(name))
    kernel.run()
    assert log == [(t, name) for t in (1.0, 2.0, 3.0) for name in "abc"]


def test_mailbox_delivers_after_the_latency_in_order() -> None:
    kernel, log = Kernel(), []
    box = Mailbox[str](kernel)

    async def reader() -> None:
        for _ in range(3):
            log.append((kernel.now, await box.get()))
            log.append(kernel.now)

    kernel.spawn(reader())
    box.put("late", 2.0)
    box.put("early", 1.0)
    box.put("also late", 2.0)
    kernel.run()
    assert log == [(0.0, "early"), 1.0, (1.0, "late"), 2.0, (2.0, "also late"), 2.0]


def test_run_until_stops_the_clock_there_and_goes_on_later() -> None:
    kernel, log = Kernel(), []
    kernel.call_at(5.0, lambda _: log.append(kernel.now))
    kernel.run(until=3.0)
    assert (kernel.now, log) == (3.0, [])
    kernel.run()
    assert log == [5.0]


def test_a_killed_task_never_wakes_and_is_closed() -> None:
    kernel, log = Kernel(), []

    async def program() -> None:
        try:
            await sleep(1.0)
            log.append("woke")
        finally:
            log.append("closed")

    task = kernel.spawn(program())
    kernel.call_at(0.5, lambda _: kernel.kill(task))
    kernel.run()
    assert log == ["closed"]


def test_throw_reaches_a_parked_task_but_not_a_dead_one() -> None:
    kernel, log = Kernel(), []

    async def program() -> None:
        try:
            await park()
        except ValueError as error:
            log.append(str(error))
            await sleep(1.0)
            log.append(str(kernel.now))

    first, second = kernel.spawn(program()), kernel.spawn(program())
    kernel.run()
    kernel.throw(first, ValueError("up"))
    kernel.throw(second, ValueError("up"))
    kernel.kill(second)
    kernel.run()
    assert log == ["up", "1.0"]


def test_instant_end_sees_everything_of_the_instant() -> None:
    kernel, log = Kernel(), []

    def note(_: object) -> None:
        log.append("event")
        if len(log) == 1:
            kernel.at_instant_end(lambda: log.append("end"))

    for _ in range(3):
        kernel.call_at(1.0, note)
    kernel.call_at(2.0, note)
    kernel.run()
    assert log == ["event", "event", "event", "end", "event"]


def test_an_error_in_a_program_is_not_swallowed() -> None:
    kernel = Kernel()

    async def program() -> None:
        await sleep(1.0)
        raise RuntimeError("broken")

    kernel.spawn(program())
    with pytest.raises(RuntimeError, match="broken"):
        kernel.run()
