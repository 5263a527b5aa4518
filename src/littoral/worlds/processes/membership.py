"""Who is in the group, and what happens when that changes: work moves, models are copied, or all go back.

Two kinds of groups. Where servers hold the model, a worker comes and goes while the others' programs run on; the
servers are made to refuse its old leases first (fencing), so no sample can be used twice. Where the workers hold the
model, all programs halt, it is settled which collectives count, whoever lacks one gets the model of somebody who has
it, and all start over with the gradients they have at hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from littoral.events import Resumed
from littoral.worlds.processes.control import MemberJoined, MemberLeft
from littoral.worlds.processes.seats import Seat

if TYPE_CHECKING:
    from littoral.worlds.processes.session import Session

Change = Callable[[], dict[str, int]]  # moves work; how much each worker got


class Membership:
    """Carries out what the supervisor decided about members."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def exclude(self, gone: str, heirs: Mapping[str, float]) -> None:
        """Go on without a worker."""
        session = self._session
        session.members = tuple(name for name in session.members if name != gone)

        def hand_over() -> dict[str, int]:
            session.books.ledger.release_all(gone)
            return session.books.ledger.hand_over(gone, heirs)

        if not session.crew.begun:
            hand_over()
        elif session.strategy.models != "served":
            await self._regroup(hand_over)
        else:
            await self._fence(gone)
            got = hand_over()
            session.crew.tell(MemberLeft(gone, session.members), but=gone, trainees=True)
            for heir in got:
                session.supply(heir)

    async def admit(self, name: str, weights: Mapping[str, float]) -> None:
        """Let a worker (back) in; without weights it only starts over."""
        session, seat = self._session, self._session.crew[name]
        if not seat.present:
            return  # gone again: it will ask again
        order = [worker.name for worker in session.plan.workers]
        session.members = tuple(sorted({*session.members, name}, key=order.index))
        seat.series += 1

        def share() -> dict[str, int]:
            session.books.ledger.release_all(name)
            return session.books.ledger.rebalance(weights) if weights else {}

        if session.strategy.models != "served":
            await self._regroup(share, newcomer=name)
            return
        await self._fence(name)
        got = share()
        session.crew.tell(MemberJoined(name, session.members), but=name, trainees=True)
        seat.admitted = seat.present
        session.crew.start(seat)
        for heir in got.keys() - {name}:
            session.supply(heir)

    async def _fence(self, worker: str) -> None:
        """From now on nobody uses what the worker computed before."""
        session = self._session
        below = session.books.ledger.next_number
        servers = [server.name for server in session.plan.servers if session.crew[server.name].present]
        await asyncio.gather(*(session.talks.fence(server, worker, below) for server in servers))

    # -- all together -------------------------------------------------------------------------------------------

    async def _regroup(self, change: Change, newcomer: str = "") -> None:
        """Everybody halts, agrees on what counts, and starts over in the new group."""
        session = self._session
        session.generation += 1
        old = [name for name in session.members if name != newcomer and session.crew[name].admitted]
        answers = await asyncio.gather(*(session.talks.halt(name, session.generation) for name in old))
        rounds = {name: answer for name, answer in zip(old, answers, strict=True) if answer is not None}
        top = max(rounds.values(), default=-1)
        if top < session.books.rounds.counted:  # whoever had the model is gone
            change()
            await self.roll_back(
                {name: float(session.plan.worker(name).shard) for name in session.members}, halted=True
            )
            return
        session.use(session.books.rounds.close(top))
        change()
        behind = [name for name in rounds if rounds[name] < top] + ([newcomer] if newcomer else [])
        donors = [name for name in rounds if rounds[name] == top]
        if await self._bring_up(behind, donors):
            if newcomer:
                session.crew[newcomer].admitted = session.crew[newcomer].present
            self._start_all(top)
        # Otherwise another one was lost meanwhile, and the next regrouping is already commanded.

    async def _bring_up(self, behind: list[str], donors: list[str]) -> bool:
        """Give those who lack something the model of one who has it all."""
        talks = self._session.talks
        for donor in donors if behind else ():
            taken = await talks.state(donor, whole=True)
            if taken is not None:
                await asyncio.gather(*(talks.load(name, taken.tensors) for name in behind))
                return True
        return not behind

    async def roll_back(self, weights: Mapping[str, float], halted: bool = False) -> None:
        """Memory is lost, or the policy wants it so: everybody goes back to the last checkpoint."""
        session = self._session
        present = session.crew.trainees
        if not halted:
            session.generation += 1
            await asyncio.gather(*(session.talks.halt(seat.name, session.generation) for seat in present))
        if any(not session.crew[server.name].present for server in session.plan.servers):
            return  # lost meanwhile: its return will bring us here again
        tensors, since = session.judge.recall()
        if weights:
            session.books.ledger.hand_over_orphans(weights)
        await self.put_back(tensors)
        session.emit(Resumed(session.clock(), since, session.books.ledger.done))
        for seat in present:
            seat.series += 1
            seat.admitted = seat.present
        self._start_all(0)

    async def put_back(self, tensors: Mapping[str, Any]) -> None:
        """A checkpoint's model, or the initial one, into everyone who holds it."""
        session, loads = self._session, []
        for source in session.judge.sources():
            state = source.state(tensors) or {"vector": session.mathematics.initial(source.start, source.stop)}
            holders = session.members if session.strategy.models == "alike" else (source.node,)
            loads += [session.talks.load(name, state) for name in holders if session.crew[name].present]
        await asyncio.gather(*loads)

    def _start_all(self, rounds: int) -> None:
        session = self._session
        session.group = session.generation
        session.books.rounds.counted = rounds
        everybody: list[Seat] = [session.crew[server.name] for server in session.plan.servers]
        for seat in everybody + [session.crew[name] for name in session.members]:
            session.crew.start(seat)
