"""Batches for workers of different speed, so that all finish a step together.

With step times t_i(b) = c_i + a_i b, find the time T at which the batches b_i(T) = (T - c_i) / a_i, kept between 1 and
what fits in memory, sum to the global batch; then round by largest remainder. Unclipped workers all end at T.
"""

from __future__ import annotations

from collections.abc import Sequence


def equal_finish(per_sample: Sequence[float], fixed: Sequence[float], most: Sequence[int], total: int) -> list[int]:
    """Whole batches that sum to ``total`` (or to all that fits) and finish as nearly together as they can.

    >>> equal_finish([1.0, 2.0], [0.0, 0.0], [1000, 1000], 30)
    [20, 10]
    """
    n = len(per_sample)
    total = min(max(total, n), sum(most))
    low, high = 0.0, max(c + a * total for a, c in zip(per_sample, fixed, strict=True))

    def batches(t: float) -> list[float]:
        return [min(max((t - c) / a, 1.0), float(m)) for a, c, m in zip(per_sample, fixed, most, strict=True)]

    for _ in range(200):
        middle = (low + high) / 2
        if sum(batches(middle)) < total:
            low = middle
        else:
            high = middle
    return _rounded(batches(high), most, total)


def _rounded(exact: Sequence[float], most: Sequence[int], total: int) -> list[int]:
    whole = [max(1, int(b)) for b in exact]
    order = sorted(range(len(exact)), key=lambda i: (whole[i] - exact[i], i))
    while sum(whole) < total:
        changed = False
        for i in order:
            if sum(whole) < total and whole[i] < most[i]:
                whole[i] += 1
                changed = True
        if not changed:
            break
    while sum(whole) > total:
        i = max(range(len(whole)), key=lambda j: (whole[j] - exact[j], whole[j] > 1, j))
        if whole[i] == 1:
            break
        whole[i] -= 1
    return whole
