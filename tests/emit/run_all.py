"""Run emitted programs, `program.py` in each folder, one after another in one launch."""

import runpy
import sys
from contextlib import ExitStack
from pathlib import Path


def main() -> None:
    target, *folders = sys.argv[1:]
    with ExitStack() as at_the_end:
        if target == "torch":
            import torch.distributed as dist

            dist.init_process_group("gloo")
            at_the_end.callback(dist.destroy_process_group)
            at_the_end.callback(dist.barrier)
            dist.init_process_group = dist.destroy_process_group = lambda *_: None
        for folder in map(Path, folders):
            print(folder, file=sys.stderr, flush=True)  # the last one is where it failed
            sys.argv = ["", f"--inputs={folder / 'in.npz'}", f"--outputs={folder / 'out.npz'}"]
            runpy.run_path(str(folder / "program.py"), run_name="__main__")


if __name__ == "__main__":
    main()
