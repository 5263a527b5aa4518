"""Imports point one way: describe, learn, plan, strategies, worlds, run; the supervisor and the worlds never meet."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import littoral

ROOT = Path(littoral.__file__).parent

# A module may import what stands before it in this list, and what shares its line.
ORDER = [
    ["errors", "units", "document", "interruption"],
    ["continuum"],
    ["job", "events", "commands"],
    ["learning.leases", "learning.task", "learning.phantom"],
    ["learning.codecs"],
    ["profiling"],
    ["planning.graphs", "planning.mixing", "planning.topology", "planning.fast_links"],
    ["planning.plan", "planning.batches", "planning.flows", "planning.collective", "planning.paces", "planning.cost"],
    ["planning.instance", "planning.answers", "planning.room", "planning.shards", "planning.simple"],
    ["planning.neighbours", "planning.responses", "planning.polish", "planning.frontier"],
    ["planning.exact", "planning.deepedge", "planning.search"],
    ["planning.wiring", "planning.prior", "planning.sharing", "planning.placing"],
    ["planning.described", "planning.profiled", "planning.solving"],
    ["worlds.node", "worlds.world"],
    ["strategies"],
    ["planning.refusing", "planning.planner"],
    ["learning", "tasks"],
    ["apps"],
    ["strikes"],
    ["watching"],
    ["incremental"],
    ["supervisor"],
    ["worlds"],
    ["profiling.keeper", "profiling.pacer", "profiling.stress"],
    ["journal", "result"],
    ["rundir"],
    ["run", "rehearsal", "deciding"],
    ["testing"],
    [
        "fidelity",
        "experiments",
        "profiling.appbench",
        "profiling.post",
        "profiling.ray_post",
        "profiling.design",
        "profiling.bench",
        "profiling.sweep",
    ],
    ["compare", "reports", "terminal"],
    ["manager"],
    ["client", "async_client"],
    ["cli_options", "arguments", "cli_profile", "cli_manager", "cli_client", "cli_models", "cli_operations", "cli"],
    ["__main__", "__init__"],
]


def rank(module: str) -> int:
    """The most specific line that names the module."""
    best = (-1, -1)
    for number, names in enumerate(ORDER):
        for name in names:
            if module == name or module.startswith(name + "."):
                best = max(best, (len(name), number))
    assert best[1] >= 0, f"{module} has no place in the layers"
    return best[1]


def imports(path: Path) -> set[str]:
    found = set()
    for node in _outside_type_checking(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("littoral"):
            base = node.module.removeprefix("littoral").removeprefix(".")
            below = {f"{base}.{alias.name}".lstrip(".") for alias in node.names}
            found |= {name for name in below if (ROOT / name.replace(".", "/")).with_suffix(".py").exists()} or {base}
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix("littoral.") for a in node.names if a.name.startswith("littoral.")}
    return found


def _outside_type_checking(tree: ast.AST) -> list[ast.AST]:
    nodes, todo = [], [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        nodes.append(node)
        todo.extend(ast.iter_child_nodes(node))
    return nodes


MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py")
    if path.stat().st_size
}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_point_one_way(module: str) -> None:
    mine = rank(module)
    for other in imports(MODULES[module]):
        assert rank(other) <= mine, f"{module} imports {other}"


def test_supervisor_and_worlds_never_import_each_other() -> None:
    assert not any(name.startswith("worlds") for name in imports(ROOT / "supervisor.py"))
    for name, path in MODULES.items():
        if name.startswith("worlds"):
            assert "supervisor" not in imports(path), name


def test_the_core_works_without_torch() -> None:
    """Describe, plan and simulate timing with torch made impossible to import."""
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('torch', 'sklearn', 'plotly', 'matplotlib', 'ray', 'scipy'):
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
sys.meta_path.insert(0, Refuse())
from littoral.testing import simulate, small_job
assert simulate(small_job(strategy='parameter_server'), timing_only=True).reason == 'epochs'
from littoral.errors import MissingExtra
try:
    simulate(small_job())
except MissingExtra as error:
    assert "pip install 'littoral[train]'" in str(error), error
else:
    raise SystemExit('real gradients without torch?')
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
