"""The process of a run, as the manager holds it: started, followed, asked to leave; and why it failed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from littoral.manager.children import command, environment
from littoral.manager.follower import Follower
from littoral.manager.runner import CHECKPOINT_S, ERROR, PATIENCE_S
from littoral.manager.runs import Run
from littoral.manager.thinning import Thinner


@dataclass
class RunProcess:
    """A run at work. Its standard input is a pipe; that it closes is how the process is asked to leave."""

    run: Run
    process: subprocess.Popen[bytes]
    follower: Follower
    thinner: Thinner = field(default_factory=Thinner)
    noted: float = 0.0  # when its progress was
    asked_at: float | None = None  # when it was asked to leave

    @classmethod
    def start(cls, run: Run, folder: Path, log: Path, now: Callable[[], float]) -> RunProcess:
        """In a folder that has all it reads."""
        follower = Follower(folder, now)
        follower.skip_history()
        with log.open("ab") as output:
            process = subprocess.Popen(
                command("littoral.manager.runner", str(folder.resolve())), env=environment(), cwd=folder,
                stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        return cls(run, process, follower)

    def ask(self, now: float) -> None:
        """Have it leave; once its time is over it is killed."""
        if self.asked_at is None:
            self.asked_at = now
            self.close()
        elif now - self.asked_at > CHECKPOINT_S + 2 * PATIENCE_S:
            self.process.kill()

    def close(self) -> None:
        """The manager's end of the pipe."""
        assert self.process.stdin is not None
        self.process.stdin.close()


def failure(folder: Path, code: int) -> str:
    """Why a process that ended with this code did."""
    try:
        return str(json.loads((folder / ERROR).read_text())["detail"])
    except (FileNotFoundError, ValueError):
        return f"its process ended with code {code}; its log says why"
