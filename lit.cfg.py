"""lit's configuration: `lit tests` or, with everything else, `pytest`."""

import importlib.util
import os
import shlex
import sys

import lit.formats

config.name = "shard_dialect"
root = os.path.dirname(os.path.abspath(__file__))

config.test_format = lit.formats.ShTest(execute_external=False)
config.test_source_root = root
config.test_exec_root = os.path.join(root, "tests", "Output")
config.suffixes = []  # named by the folders that have tests, in their lit.local.cfg

if importlib.util.find_spec("jaxlib") is not None:
    config.available_features.add("jaxlib")

sys.path.insert(0, root)
from tests.runtime.launching import launches  # noqa: E402

bounded = "timeout --kill-after=5 120"


def python(module):
    """`python -m` with the module, or what stands for it (tests/forks)."""
    cold = shlex.join([sys.executable, "-m", module])
    return f"{bounded} {lit_config.params.get(module, cold)}"


config.substitutions += [
    (r"\bshard-opt\b", python("shard_dialect.opt")),
    (r"\bshard-run\b", python("shard_dialect.run")),
    (r"\bshard-report\b", python("shard_dialect.report")),
    (r"\bshard-prove\b", python("shard_dialect.prove")),
    (r"\bfilecheck\b", python("filecheck")),
    ("%examples", os.path.join(root, "examples")),
]
for launch in launches():
    if launch.launcher:
        name = launch.backend
        command = shlex.join(launch.command(4, "-m", "shard_dialect.run"))
        command = lit_config.params.get(launch.backend, command)
        config.available_features.add(name)
        config.substitutions.append((f"%{name}-on-4-ranks", f"{bounded} {command}"))
config.environment["PYTHONPATH"] = root
config.environment["PYTHONWARNINGS"] = "default"
config.environment["SHARD_DIALECT_CACHE"] = "0"
config.environment["SHARD_DIALECT_PROGRESS"] = "0"
config.environment["SHARD_DIALECT_OPT_LEVEL"] = "0"  # LLVM would take half of the time of a run
