"""What the operator's guide and the systemd unit say is so."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_serve import CLEAN, LITTORAL

DOCS = Path(__file__).parents[2] / "docs"
GUIDE, UNIT = (DOCS / "operating.md").read_text(), (DOCS / "littoral.service").read_text()


def commands() -> list[str]:
    """Those of the guide and of the unit, beginning with the verb."""
    shown = re.findall(r"^    littoral (.+)$", GUIDE, re.MULTILINE)
    return [*shown, *re.findall(r"^ExecStart=/opt/littoral/bin/littoral (.+)$", UNIT, re.MULTILINE)]


def test_commands_exist_with_their_options() -> None:
    assert len(commands()) >= 9
    pages = (DOCS / "commands.md").read_text().split("\n## littoral ")
    helps = {page.split("\n", 1)[0]: page for page in pages}
    for command in commands():
        verb = next(verb for verb in helps if command.startswith(f"{verb} "))
        for option in re.findall(r"--[a-z-]+", command):
            assert re.search(rf"{option}\b", helps[verb]), (verb, option)


def test_every_figure_is_in_the_guide(tmp_path: Path) -> None:
    from littoral.manager.manager import Manager
    from littoral.manager.metrics import Metrics

    manager = Manager(tmp_path)
    text = Metrics(manager).text().decode()
    manager.stop()
    names = set(re.findall(r"^# TYPE (littoral_\w+) ", text, re.MULTILINE)) - {"littoral_info", "littoral_events_total"}
    assert len(names) > 15
    for name in names:
        assert name.removesuffix("_created") in GUIDE, name


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not here")
    unit = tmp_path / "littoral.service"
    unit.write_text(UNIT.replace("/opt/littoral/bin/littoral", shutil.which("true") or "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
    assert done.returncode == 0 and "Unknown" not in done.stderr, done.stderr


def test_defaults_that_the_guide_names() -> None:
    told = subprocess.run([*LITTORAL, "serve", "--help"], env=CLEAN, capture_output=True, text=True).stdout
    told = " ".join(told.split())
    for default in ("20 s", "256 MiB", "200"):
        assert default in told and default in GUIDE
