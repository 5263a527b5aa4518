"""What is told when there is no Ray or no cluster, and the guide to clusters: all without one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml
from clouds import free_port, needs_ray

from littoral.continuum.load import parse_continuum
from littoral.errors import InputError, MissingExtra
from littoral.job import load_job
from littoral.learning.task import load_task
from littoral.planning.planner import make_plan
from littoral.testing import live, small_job
from littoral.worlds.ray.cluster import Machine, _machine, join, start_line

GUIDE = Path(__file__).parents[2] / "docs" / "cluster.md"


def test_without_ray_its_install_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"the ray world needs ray.*pip install 'littoral\[ray\]'"):
        live(small_job(), world="ray", address="127.0.0.1:1")


@needs_ray
def test_where_no_cluster_is_nobody_waits() -> None:
    nobody = f"127.0.0.1:{free_port('127.0.0.1')}"
    with pytest.raises(InputError, match=f"no Ray cluster answers at {nobody}.*ray start --head"), join(nobody, []):
        pass
    with pytest.raises(InputError, match="no address of a Ray cluster; write HOST:PORT"), join("ray://host:10001", []):
        pass


def test_two_machines_of_one_name_are_refused() -> None:
    found = [Machine("10.0.0.1", "hub", frozenset({"CPU"})), Machine("10.0.0.2", None, frozenset({"device:hub"}))]
    with pytest.raises(InputError, match=r"2 Ray nodes say that they are hub: 10\.0\.0\.1 and 10\.0\.0\.2"):
        _machine("hub", ["hub"], found, "10.0.0.1:6379")


def test_a_name_that_cannot_be_a_label_is_a_resource() -> None:
    assert start_line("_cam", "h:1") == """ray start --address=h:1 --resources='{"device:_cam": 1}'"""


# -- the guide --------------------------------------------------------------------------------------------------


def block(title: str) -> str:
    """The block of the guide that begins with its name as a comment."""
    found = re.search(rf"    # {re.escape(title)}\n((?:    .+\n)+)", GUIDE.read_text())
    assert found is not None, title
    return re.sub(r"^    ", "", found[1], flags=re.M)


def test_the_files_of_the_guide_belong_together(tmp_path: Path) -> None:
    for name in ("continuum.yaml", "job.yaml"):
        (tmp_path / name).write_text(block(name))
    job = load_job(tmp_path / "job.yaml")
    task = load_task(job.task, job.task_options, job.recipe)
    plan = make_plan(job, task.footprint(), task.recipe)
    assert set(plan.device_of.values()) == set(job.continuum.device_names)
    assert set(re.findall(r"--labels=littoral\.device=([\w-]+)", GUIDE.read_text())) == set(job.continuum.device_names)


def test_the_kuberay_manifest_of_the_guide_is_one() -> None:
    manifest = yaml.safe_load(block("cluster.yaml"))
    assert (manifest["apiVersion"], manifest["kind"]) == ("ray.io/v1", "RayCluster")
    spec = manifest["spec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    labels = [group["labels"]["littoral.device"] for group in groups]
    assert set(labels) == set(parse_continuum(block("continuum.yaml")).device_names)
    for group in spec["workerGroupSpecs"]:
        assert group["replicas"] == group["minReplicas"] == group["maxReplicas"] == 1  # a name is one machine's
        assert "labels" not in group.get("rayStartParams", {})  # which KubeRay refuses
    arch = [group["template"]["spec"]["nodeSelector"]["kubernetes.io/arch"] for group in spec["workerGroupSpecs"]]
    assert sorted(arch) == ["amd64", "arm64"]


@needs_ray
def test_the_guides_ray_start_lines_use_options_that_exist() -> None:
    from ray.scripts.scripts import start

    known = {name for parameter in start.params for name in parameter.opts}
    lines = re.findall(r"^    .*ray start (.*(?:\\\n.*)*)", GUIDE.read_text(), re.M)
    assert lines
    for line in lines:
        assert set(re.findall(r"(--[a-z-]+)", line)) <= known, line
