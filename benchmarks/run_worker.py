"""One contender of `benchmarks.run`, in a process of its own: compiles a program, runs it if told.

    python -m benchmarks.run_worker ours|jax|torch|dtensor NAME:SIZE DEVICES FOLDER

Prints a line of JSON when it is ready, an empty one, and one for each line that it is sent, a
number: the seconds that one run took, of so many, by the clock on the wall and by that of the
process's CPUs.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.run_programs import Program, chosen

Run = Callable[[], Any]


def ours(program: Program, devices: int, folder: Path) -> tuple[Run, Callable[[Any], Any]]:
    from shard_dialect.ir.context import make_context
    from shard_dialect.ir.reading.source import Source
    from shard_dialect.runtime.communicators.world import InProcess
    from shard_dialect.runtime.compile import compile_sharded
    from shard_dialect.runtime.executable import Alone

    source = Source.read(str(folder / f"{devices}.mlir"))
    with make_context():
        executable = compile_sharded(source) if devices > 1 else unsharded(source)
    inputs = program.inputs()
    if devices == 1:
        return lambda: executable.run(inputs, Alone())[0], lambda result: result
    world = InProcess(devices)
    shards = [executable.program.scatter(inputs, rank) for rank in world.ranks]
    return (
        lambda: world.run(executable, shards),
        lambda results: executable.program.gather(results)[0],
    )


def unsharded(source: Any) -> Any:
    """The program for one device, as it is compiled for many."""
    from shard_dialect.passes.framework.pipeline import run_pipeline
    from shard_dialect.runtime.executable import Executable

    module = source.parse()
    run_pipeline(module, "import,erase-sharding,lower")
    return Executable(module, "main")


def in_jax(program: Program, devices: int, folder: Path) -> tuple[Run, Callable[[Any], Any]]:
    import jax

    arguments = [jax.numpy.asarray(each) for each in program.inputs()]
    function = jax.jit(program.in_jax())
    if devices > 1:
        devices_by_axis = np.array(jax.devices()).reshape(tuple(program.grid.values()))
        mesh = jax.sharding.Mesh(devices_by_axis, tuple(program.grid))
        *lies, result = (
            jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*each))
            for each in program.lies
        )
        function = jax.jit(program.in_jax(), in_shardings=lies, out_shardings=result)
        arguments = [jax.device_put(*each) for each in zip(arguments, lies, strict=True)]
    lowered = function.lower(*arguments)
    asm = lowered.compiler_ir("stablehlo").operation.get_asm(print_generic_op_form=True)
    (folder / f"{devices}.mlir").write_text(asm)
    compiled = lowered.compile()
    return lambda: jax.block_until_ready(compiled(*arguments)), np.asarray


def in_torch(program: Program, devices: int, folder: Path) -> tuple[Run, Callable[[Any], Any]]:
    import torch

    torch.set_num_threads(1)
    function = program.in_torch()
    arguments = [torch.from_numpy(each) for each in program.inputs()]
    with torch.no_grad():
        function(*arguments)
    return lambda: _without_gradients(function, arguments), lambda result: result.numpy()


def in_dtensor(program: Program, devices: int, folder: Path) -> tuple[Run, Callable[[Any], Any]]:
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", tuple(program.grid.values()))

    def placed(lies: Any) -> list[Any]:
        dims = [(each,) if isinstance(each, str) else each or () for each in lies]
        found = {axis: Shard(dim) for dim, axes in enumerate(dims) for axis in axes}
        return [found.get(axis, Replicate()) for axis in program.grid]

    *lies, result = map(placed, program.lies)
    given = [torch.from_numpy(each) for each in program.inputs()]
    arguments = [distribute_tensor(x, mesh, how) for x, how in zip(given, lies, strict=True)]
    function = program.in_torch()
    return (
        lambda: _without_gradients(function, arguments).redistribute(mesh, result),
        lambda made: made.full_tensor().numpy(),
    )


def _without_gradients(function: Any, arguments: Any) -> Any:
    import torch

    with torch.no_grad():
        return function(*arguments)


CONTENDERS = {"ours": ours, "jax": in_jax, "torch": in_torch, "dtensor": in_dtensor}


def main() -> None:
    who, name, devices, folder = sys.argv[1:]
    program = chosen([name])[0]
    run, read = CONTENDERS[who](program, int(devices), Path(folder))
    speaks = os.environ.get("RANK", "0") == "0"
    result = read(run())
    if speaks:
        np.save(Path(folder) / f"{who}{devices}.npy", result)
        print("{}", flush=True)
    while (count := _next(speaks, who)) > 0:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            run()
        spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        if speaks:
            print(json.dumps({each: value / count for each, value in spent.items()}), flush=True)


def _next(speaks: bool, who: str) -> int:
    """How often to run, as rank 0 is told; 0 at the end."""
    count = int(sys.stdin.readline() or 0) if speaks else 0
    if who != "dtensor":
        return count
    import torch
    import torch.distributed as dist

    told = torch.tensor([count])
    dist.broadcast(told, 0)
    return int(told)


if __name__ == "__main__":
    main()
