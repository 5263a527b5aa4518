"""How a shard is cut into blocks, the pieces in which it travels from a store to workers."""

from __future__ import annotations

BLOCK_BYTES = 256_000
FEWEST_SAMPLES = 16


def samples_per_block(sample_bytes: int) -> int:
    """How many samples make a block of about 256 kB; few large samples are still worth one message.

    >>> samples_per_block(785)
    326
    """
    return max(FEWEST_SAMPLES, BLOCK_BYTES // max(1, sample_bytes))


def block_count(size: int, per_block: int) -> int:
    """Blocks of a shard."""
    return -(-size // per_block)


def share_touched(samples: int, size: int, per_block: int) -> float:
    """The expected share of a shard that comes with the blocks of some samples, drawn anywhere in it.

    Every epoch has an order of its own, so neighbours in a batch lie anywhere: a few batches touch nearly all blocks.

    >>> round(share_touched(32, 10_000, 326), 2), round(share_touched(320, 10_000, 326), 3)
    (0.65, 1.0)
    """
    whole, rest = divmod(size, per_block)
    parts = [(whole * per_block, per_block), (rest, rest)]  # the last block may be a short one
    return sum(float(many * (1 - (1 - one / size) ** samples)) for many, one in parts if many) / size
