"""What a machine must offer for the lab to work there, and the complaint when something is missing."""

from __future__ import annotations

import os
from pathlib import Path

from littoral.errors import LittoralError
from littoral.worlds.lab.cgroups import find_controllers


class LabUnavailable(LittoralError):
    """The lab cannot be brought up here; says which part is missing and what still works."""

    exit_code = 2

    def __init__(self, missing: list[str]) -> None:
        without = "simulation and '--world processes' work without it, unshaped and at this machine's own speed"
        super().__init__(f"the lab cannot work here: {'; '.join(missing)}; {without}")


def missing_parts() -> list[str]:
    """Sentences, one per missing part; none if the lab can work."""
    checks = {
        "it needs root (try sudo)": os.geteuid() == 0,
        "there is no /dev/net/tun (load the kernel's module 'tun')": Path("/dev/net/tun").exists(),
        "the kernel has no network namespaces": Path("/proc/self/ns/net").exists(),
        "no cgroup tree with the cpu controller is mounted": find_controllers().cpu is not None,
    }
    return [sentence for sentence, there in checks.items() if not there]
