"""How good is the model, and what to resume from: asks those who hold it, between their steps."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from littoral.events import Checkpointed, Evaluated
from littoral.strategies.strategy import Source
from littoral.worlds.processes.states import Taken

if TYPE_CHECKING:
    from littoral.worlds.processes.session import Session

Marked = tuple[float, int, dict[str, object]]  # when, samples used, the ledger then


class Judge:
    """Evaluates and saves."""

    def __init__(self, session: Session, keeper: Any) -> None:
        self._session, self._keeper = session, keeper
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="judge", initializer=_yield_to_others)
        self._at_work: set[asyncio.Task[None]] = set()
        self._evaluated_at = 0
        self._every = max(1, round(session.job.evaluate_every * session.books.ledger.total))
        self.last_s = 0.0  # of what time the last verdict was

    def sources(self) -> list[Source]:
        """Where the model is to be found."""
        session = self._session
        members = session.members or tuple(worker.name for worker in session.plan.workers)
        return session.strategy.sources(session.plan, members, session.mathematics.length)

    def check(self) -> None:
        """Samples were used: see whether a verdict is due."""
        ledger = self._session.books.ledger
        news = ledger.done - self._evaluated_at
        if news >= self._every or (ledger.left == 0 and news > 0):
            self._evaluated_at = ledger.done
            self.evaluate()

    def evaluate(self) -> None:
        """Judge the model as it is now; the verdict follows, unless nobody wants any."""
        if not self._session.mathematics.evaluates:
            return
        task = asyncio.ensure_future(self._evaluate())
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)

    async def _evaluate(self) -> None:
        taken = await self._take(whole=False)
        if taken is not None:
            (when, samples, _), states = taken
            parts = [(source, state.tensors["vector"]) for source, state in states]
            loop = asyncio.get_running_loop()
            accuracy, loss = await loop.run_in_executor(self._thread, self._session.mathematics.evaluate, parts)
            self.last_s = when
            self._session.emit(Evaluated(when, samples, accuracy, loss))

    async def save(self) -> None:
        """Make the present state resumable."""
        taken = await self._take(whole=True)
        if taken is not None:
            (when, samples, ledger), states = taken
            tensors = {f"{source.prefix}{name}": t for source, state in states for name, t in state.tensors.items()}
            metadata = {
                "t": when, "evaluated_at": self._evaluated_at, "members": list(self._session.members), "ledger": ledger,
            }  # fmt: skip
            await self._session.all_told()  # a checkpoint must not count what no journal proves
            await asyncio.get_running_loop().run_in_executor(None, self._keeper.save, tensors, metadata)
            self._session.emit(Checkpointed(when, samples))

    async def _take(self, *, whole: bool) -> tuple[Marked, list[tuple[Source, Taken]]] | None:
        """The model as it is now, and what the books say of that instant; None if somebody who holds it is gone.

        Several servers answer at instants of their own: the books are those of the last.
        """
        session, sources = self._session, self.sources()

        def mark() -> Marked:
            return session.clock(), session.books.ledger.done, session.books.ledger.state() if whole else {}

        if not all(session.crew[source.node].admitted for source in sources):
            return None
        asked = (session.talks.state(source.node, whole=whole, mark=mark) for source in sources)
        answers = [answer for answer in await asyncio.gather(*asked) if answer is not None]
        if len(answers) < len(sources):
            return None
        last: Marked = max((answer.marked for answer in answers), key=lambda marked: marked[1])
        return last, list(zip(sources, answers, strict=True))

    def recall(self) -> tuple[dict[str, Any], float]:
        """Set the books back to the last checkpoint, or to the beginning; its tensors, and when it was taken."""
        saved = self._keeper.load()
        tensors, metadata = saved if saved is not None else ({}, {"t": 0.0, "ledger": None, "evaluated_at": 0})
        self._session.books.restore(metadata["ledger"], 0)
        self._evaluated_at = metadata["evaluated_at"]
        return tensors, float(metadata["t"])

    def members_then(self) -> set[str]:
        """Who was in when the last checkpoint was taken."""
        saved = self._keeper.load()
        return set(saved[1]["members"]) if saved is not None else set(self._session.members)

    async def finish(self) -> None:
        """Wait for verdicts under way."""
        await asyncio.gather(*self._at_work)

    async def close(self) -> None:
        """End the thread."""
        for task in self._at_work:
            task.cancel()
        await asyncio.gather(*self._at_work, return_exceptions=True)
        self._thread.shutdown(wait=True, cancel_futures=True)


def _yield_to_others() -> None:
    """The judge is in no hurry: devices that are emulated on this machine come first."""
    os.setpriority(os.PRIO_PROCESS, 0, 10)
