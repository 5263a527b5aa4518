"""The rival: PyTorch DistributedDataParallel over gloo, on the same hosts of the same lab, with the same task.

Equal batches, as DDP gives them. Every process imports its libraries before it enters its device's quota, as our own
node processes do, and times its steps after a warm-up; what it prints is one JSON line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec


def run_ddp(
    places: list[Any], task: str, options: dict[str, Any], *, batches: list[int], steps: int, warmup: int = 5,
    seed: int = 0, master_port: int = 29531, evaluate: bool = False, half: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Train for ``steps`` steps with one process per place; rank 0's account."""
    processes = []
    try:
        for rank, place in enumerate(places):
            boot = {
                "rank": rank, "world": len(places), "place": msgspec.to_builtins(place), "task": task,
                "options": options, "batches": batches, "steps": steps, "warmup": warmup, "seed": seed,
                "master": f"{places[0].address}:{master_port}", "evaluate": evaluate, "half": half,
            }  # fmt: skip
            process = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            assert process.stdin is not None
            process.stdin.write(json.dumps(boot))
            process.stdin.close()
            processes.append(process)
        outputs = [process.stdout.read() for process in processes if process.stdout is not None]
        codes = [process.wait() for process in processes]
        if any(codes):
            raise RuntimeError(f"DDP failed with {codes}")
        account: dict[str, Any] = json.loads(outputs[0].splitlines()[-1])
        return account
    finally:
        for process in processes:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def main() -> None:
    boot = json.load(sys.stdin)
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
    from torch.nn.parallel import DistributedDataParallel

    from littoral.learning.learner import step_scale
    from littoral.learning.task import load_task
    from littoral.worlds.lab.places import Place, enter

    torch.set_num_threads(1)
    task = load_task(boot["task"], boot["options"])
    data = task.data()
    torch.manual_seed(boot["seed"])
    model = task.model()
    enter(msgspec.convert(boot["place"], Place))
    import os

    os.environ["GLOO_SOCKET_IFNAME"] = _interface(boot["place"]["address"])
    dist.init_process_group("gloo", init_method=f"tcp://{boot['master']}", rank=boot["rank"], world_size=boot["world"])
    ddp = DistributedDataParallel(model)
    if boot["half"]:
        ddp.register_comm_hook(None, fp16_compress_hook)
    whole, mine = sum(boot["batches"]), boot["batches"][boot["rank"]]
    recipe = task.recipe
    optimizer = torch.optim.SGD(
        ddp.parameters(), lr=recipe.lr, momentum=recipe.momentum, weight_decay=recipe.weight_decay
    )
    generator = torch.Generator().manual_seed(boot["seed"])
    start_of_mine = sum(boot["batches"][: boot["rank"]])
    order = torch.randperm(len(data.train_x), generator=generator)
    at = started = 0.0
    position = 0
    for step in range(boot["warmup"] + boot["steps"]):
        if step == boot["warmup"]:
            dist.barrier()
            started = time.perf_counter()
        if position + whole > len(order):
            order, position = torch.randperm(len(data.train_x), generator=generator), 0
        index = order[position + start_of_mine : position + start_of_mine + mine]
        position += whole
        optimizer.param_groups[0]["lr"] = recipe.lr * step_scale(recipe, whole, step * whole)  # as ours, warm-up too
        optimizer.zero_grad(set_to_none=True)
        # DDP averages over ranks: weighting by the batch makes unequal batches exact too.
        loss = task.loss(ddp(data.train_x[index]), data.train_y[index]) * (mine * boot["world"] / whole)
        loss.backward()
        optimizer.step()
    dist.barrier()
    at = time.perf_counter() - started
    samples = whole * boot["steps"]
    account: dict[str, Any] = {"seconds": at, "samples": samples, "samples_per_s": samples / at}
    if boot["rank"] == 0:
        if boot["evaluate"]:
            model.eval()
            with torch.no_grad():
                output = torch.cat([model(x) for x in torch.split(data.test_x, 1024)])
            account["accuracy"] = task.metric(output, data.test_y)
        print(json.dumps(account), flush=True)
    dist.destroy_process_group()


def _interface(address: str) -> str:
    """The network interface that has an address."""
    import psutil

    for name, entries in psutil.net_if_addrs().items():
        if any(entry.address == address for entry in entries):
            return name
    raise RuntimeError(f"no interface has {address}")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    main()
