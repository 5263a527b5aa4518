"""What the documentation shows must be true."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from littoral.continuum.load import parse_continuum
from littoral.job import load_job

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("examples/*/README.md"))]


def test_generated_pages_are_current() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs" / "make.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_files_in_the_readme_work(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    blocks = {name: body for name, body in re.findall(r"    # (\w+\.yaml)\n((?:    .*\n)+)", text)}
    for name, body in blocks.items():
        (tmp_path / name).write_text(re.sub(r"^    ", "", body, flags=re.M))
    assert parse_continuum((tmp_path / "continuum.yaml").read_text()).device_names[-1] == "gpu-1"
    assert load_job(tmp_path / "job.yaml").accuracy == 0.95


def test_the_task_in_the_docs_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "extending.md").read_text()
    code = re.search(r"    import torch\n(?:    .*\n|\n)+", text)
    assert code is not None
    (tmp_path / "documented_task.py").write_text(re.sub(r"^    ", "", code[0], flags=re.M))
    monkeypatch.syspath_prepend(tmp_path)
    from littoral.testing import simulate, small_job

    story = simulate(replace(small_job(epochs=6), task="documented_task:MyTask", task_options={}))
    assert story.accuracies[-1] > 0.85


def test_every_repository_file_speaks_of_littoral_only() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    pattern = re.compile(r"(?<![\w.])/(?:work|root|home)/\w")
    for name in listed.stdout.split():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".yaml", ".toml", ".csv", ".txt"} and path.exists():
            assert not pattern.search(path.read_text()), name
