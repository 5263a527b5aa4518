"""Keeps a graphics card busy for a share of the time: python -m littoral.profiling.gpu_burner SHARE [NUMBER]

A cycle is a burst of matrix products, waited for asleep, and a pause. Bursts are short, so that others get their turn;
the products are large enough to fill the card while they last. Says "burning" when it is at work. Needs torch.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

_CYCLE_S = 0.02
_SIDE = 2048
_TOGETHER = 4  # products between two waits: each wait takes as long as waking up does


def burn(share: float, product: Callable[[], None], forever: Callable[[], bool] = lambda: True) -> None:
    """Call ``product``, which returns when it is done, for ``share`` of the time."""
    while forever():
        start = time.monotonic()
        while time.monotonic() - start < share * _CYCLE_S:
            product()
        busy = time.monotonic() - start
        if share < 1:
            time.sleep(busy / share - busy)


def products(torch: Any, device: str = "cuda") -> Callable[[], None]:
    """Matrix products on the card, waited for without keeping a core busy."""
    matrix = torch.randn(_SIDE, _SIDE, device=device)
    result = torch.empty_like(matrix)
    done = torch.cuda.Event(blocking=True)

    def product() -> None:
        for _ in range(_TOGETHER):
            torch.mm(matrix, matrix, out=result)
        done.record()
        done.synchronize()

    return product


def main(share: str, number: str = "0") -> None:
    """Until ended."""
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("torch finds no graphics card")
    torch.backends.cuda.matmul.allow_tf32 = True
    product = products(torch, f"cuda:{number}")
    product()
    print("burning", flush=True)
    burn(float(share), product)


if __name__ == "__main__":
    main(*sys.argv[1:3])
