"""The story in numbers: accuracy before the first drift, decayed, recovered, and without updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from littoral.terminal import table as aligned

if TYPE_CHECKING:
    from run import Asked, Story

RECENT = 5  # batches that the curve is a mean of
END = 10  # batches at the end of a phase


def accuracy(batches: list[Asked], *, frozen: bool = False) -> float:
    """How often a model was right."""
    right = sum(each.frozen_right if frozen else each.right for each in batches)
    return right / sum(each.pictures for each in batches)


def rolling(batches: list[Asked], *, frozen: bool = False) -> list[float]:
    """Over the last batches, at each of them."""
    return [accuracy(batches[max(0, i + 1 - RECENT) : i + 1], frozen=frozen) for i in range(len(batches))]


def by_phase(story: Story) -> list[dict[str, Any]]:
    """The lowest accuracy in each phase, and both models at its end."""
    curve, rows = rolling(story.batches), []
    for _, name in story.phases:
        places = [i for i, each in enumerate(story.batches) if each.phase == name]
        last = [story.batches[i] for i in places][-END:]
        rows.append({
            "phase": name, "lowest": min(curve[i] for i in places[RECENT:] or places), "end": accuracy(last),
            "frozen": accuracy(last, frozen=True),
        })  # fmt: skip
    return rows


def summary(story: Story) -> dict[str, Any]:
    """All phases after the first together; SIFT's deadlines over all updates."""
    calm, *drifted = by_phase(story)
    checked, missed = (sum((u["slo"] or {}).get(key, 0) for u in story.updates) for key in ("checked", "violated"))
    return {
        "before": calm["end"],
        "decayed": _mean(row["lowest"] for row in drifted),
        "recovered": _mean(row["end"] for row in drifted),
        "without_updates": _mean(row["frozen"] for row in drifted),
        "updates": len(story.updates),
        "promoted": sum(u["state"] == "promoted" for u in story.updates),
        "refused": sum(u["state"] == "refused" for u in story.updates),
        "failed": sum(u["state"] in ("failed", "given up") for u in story.updates),
        "sift_pictures": checked,
        "sift_late": missed,
        "phases": by_phase(story),
    }


def table(story: Story) -> str:
    """For the terminal."""
    rows = [[r["phase"], *(f"{r[key]:.3f}" for key in ("lowest", "end", "frozen"))] for r in by_phase(story)]
    found = summary(story)
    means = f"decayed to {found['decayed']:.3f}, recovered to {found['recovered']:.3f}"
    ended = f"{found['promoted']} promoted, {found['refused']} refused, {found['failed']} failed"
    return "\n".join([
        aligned(["phase", "lowest", "at its end", "without updates"], rows),
        f"\naccuracy before the first drift {found['before']:.3f}; means over the drifts: {means}, "
        f"without updates {found['without_updates']:.3f}",
        f"updates: {ended}; SIFT beside them: {found['sift_late']} of {found['sift_pictures']} pictures late",
    ])  # fmt: skip


def _mean(values: Any) -> float:
    found = list(values)
    return sum(found) / len(found)
