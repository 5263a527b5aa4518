"""Groups that everybody knows beforehand: Prague's static schedule, for workers that keep the same pace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise


def static_groups(teams: Sequence[Sequence[str]], size: int, number: int) -> list[list[str]]:
    """Round ``number`` of a schedule that everybody knows: disjoint groups; over ``cycle`` rounds all are connected.

    With one team (site), strides of 1, size, size^2 ... as long as they fit: with size^m workers, m rounds average
    them all. With several, sites are preferred: in even rounds a head of each meets other heads and the rest stay
    inside, in odd rounds the heads pass on what they learnt. Reconstructed: the paper's own table is for 4 x 4.
    """
    if len(teams) == 1:
        return _strided(teams[0], size, number)
    turn, inside = divmod(number, 2)
    if inside:
        return [group for team in teams for group in _strided(team, size, turn)]
    heads = _strided([team[0] for team in teams], size, turn)
    return heads + [group for team in teams for group in _strided(team[1:], size, turn)]


def cycle(teams: Sequence[Sequence[str]], size: int) -> int:
    """Rounds after which a static schedule has connected everybody."""
    if len(teams) == 1:
        return len(_strides(len(teams[0]), size))
    return 2 * max(len(_strides(n, size)) for n in [len(teams), *(len(team) for team in teams)])


def _strides(n: int, size: int) -> list[int]:
    strides = [1]
    while strides[-1] * size < n:
        strides.append(strides[-1] * size)
    return strides


def _strided(workers: Sequence[str], size: int, turn: int) -> list[list[str]]:
    strides = _strides(len(workers), size)
    stride = strides[turn % len(strides)]
    return cut([worker for start in range(stride) for worker in workers[start::stride]], size)


def cut(workers: Sequence[str], size: int) -> list[list[str]]:
    """Parts of ``size`` at most, as few and as equal as can be.

    >>> cut("abcdefg", 3)
    [['a', 'b'], ['c', 'd', 'e'], ['f', 'g']]
    """
    parts = math.ceil(len(workers) / size)
    ends = [round(i * len(workers) / parts) for i in range(parts + 1)] if parts else []
    return [list(workers[start:stop]) for start, stop in pairwise(ends)]
