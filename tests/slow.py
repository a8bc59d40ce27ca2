"""Which tests are slow, and which of many like each other run by default.

    pytest                           what is neither slow nor exhaustive, a share of many alike
    pytest --seed 7                  the share that a run drew which printed this seed
    pytest --all                     each of many alike
    pytest -m 'slow and not exhaustive'    what starts ranks, torch, JAX, browsers, processes
    pytest -m 'not exhaustive'     both
    pytest -m '(slow or extra) and not exhaustive'    as in CI, after `pytest` without extras

A run that fails prints its seed, by which it is run again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

SLOW = {
    "analysis/test_all_removals.py": "partitions once for each annotation of several models",
    "analysis/test_allocators.py": "asks XLA for its memory",
    "analysis/test_flax_whys.py": "lowers models of Flax",
    "analysis/test_page_geometry.py": "starts a browser, and lowers models of Flax",
    "analysis/test_report_page.py": "starts a browser",
    "analysis/test_whys_in_later_forms.py": "partitions models several times",
    "analysis/test_xla_order.py": "compiles by XLA",
    "cli/test_driver.py": "starts processes that fail in many ways",
    "emit/test_collectives.py": "runs emitted programs",
    "emit/test_corner_cases.py": "runs emitted programs",
    "emit/test_element_types.py": "runs emitted programs",
    "emit/test_emit_python.py": "runs emitted programs on ranks",
    "emit/test_every_op.py::test_every_op_is_written": "runs emitted programs on ranks",
    "emit/test_files.py": "runs emitted programs on ranks",
    "emit/test_matrices_and_bodies.py": "runs emitted programs on ranks",
    "emit/test_object_files.py": "compiles C and C++, and starts ranks",
    "emit/test_order.py": "runs emitted programs on ranks",
    "explorer": "starts Model Explorer",
    "forks": "starts processes",
    "hostile": "starts processes that end in every way",
    "ir/test_fuzz_reader.py": "reads thousands of texts",
    "ir/test_shardy_agreement.py": "asks Shardy, in processes",
    "jax": "compiles by XLA",
    "ops/test_run_as_others.py": "compiles by XLA, and starts StableHLO's interpreter",
    "ops/test_stablehlo_pieces.py::test_shards_of_what_only_xla_runs": "compiles by XLA",
    "passes/test_collective_passes.py": "compiles each program after each pass",
    "passes/test_partly_reached.py": "compiles by XLA, in processes",
    "passes/test_random_exports.py": "reads hundreds of programs back from other vocabularies",
    "passes/test_rolled_pipelines.py::test_drawn_decoders_compute_the_same": "compiles much",
    "planner/test_time_plans.py": "enumerates plans",
    "processes": "starts processes",
    "propagation/test_shardy_propagation.py": "asks Shardy, in processes",
    "propagation/test_upstream_agreement.py": "asks upstream, in processes",
    "runtime/test_accumulation.py": "compiles long sums",
    "runtime/test_backends.py": "starts ranks",
    "runtime/test_bisect.py": "runs programs many times, also on ranks",
    "runtime/test_blas.py": "measures products",
    "runtime/test_cache.py": "starts processes that share a cache",
    "runtime/test_check.py": "checks by several judges",
    "runtime/test_collectives.py": "starts ranks",
    "runtime/test_convolutions.py": "compiles convolutions at LLVM's usual level",
    "runtime/test_failing_ranks.py": "starts ranks",
    "runtime/test_many_devices.py": "starts many threads",
    "runtime/test_measure.py": "measures collectives",
    "runtime/test_meeting.py": "starts ranks",
    "runtime/test_messages.py": "starts ranks",
    "runtime/test_profile.py": "starts ranks",
    "runtime/test_reached_apart.py": "starts ranks",
    "runtime/test_saved_programs.py": "starts processes that share a folder",
    "runtime/test_searches.py": "searches",
    "runtime/test_several_hosts.py": "starts ranks",
    "runtime/test_shard_files.py": "starts ranks",
    "runtime/test_table_of_backends.py": "starts ranks",
    "runtime/test_torch_compiler.py": "compiles by torch",
    "runtime/test_xla.py": "compiles by XLA",
    "search": "searches for seconds at a time",
    "test_children.py": "starts processes",
    "test_communication_benchmark.py": "lowers models of JAX",
    "test_docs.py": "runs the commands of pages",
    "test_examples.py": "runs each example in a process",
    "test_extras.py": "makes environments",
    "test_foreign_modules.py": "starts processes",
    "test_notebooks.py": "runs notebooks in a kernel",
    "test_packages.py": "builds packages and installs them",
    "test_same_at_every_run.py": "starts processes with other hash seeds",
    "test_services.py::test_a_process_that_has_compiled_forks": "starts processes",
    "test_shard_maps.py": "compares with JAX",
    "test_stablehlo_oracle.py": "starts StableHLO's interpreter",
    "test_transfers_between_parts.py::test_it_runs_on_every_backend": "starts ranks",
    "test_transfers_between_parts.py::test_layers_on_every_backend": "starts ranks",
    "test_typing.py": "runs mypy and pyright",
    "test_upstream_communication.py": "starts upstream's passes in processes",
    "testing": "runs random programs and faults in processes",
    "torch": "starts torch, also on ranks",
    "torch.md": "starts torch",
}
"""Files, folders and single functions of tests, with what makes them slow."""
KEPT = 4
"""The tests of one function that run by default, where it has more parameters."""
KEPT_OF = {
    "analysis/test_why.py": 2,
    "cli/test_drawn_cases.py": 15,
    "ops/test_every_rule.py": 80,
    "ir/test_mesh_pretty.py": 30,
    "model/test_plan.py": 3,
    "passes/test_rolled_pipelines.py": 3,
    "passes/test_steps.py": 3,
    "proof/test_python_programs.py": 3,
    "jax/test_pipelined_decoder.py": 1,
    "hostile": 2,
    "jax": 2,
    "test_packages.py": 1,
    "torch": 2,
}
"""The same, for the files and folders of which more or fewer tell more, or take long."""


def add_options(parser: pytest.Parser) -> None:
    """Add `--seed` and `--all`."""
    parser.addoption("--seed", type=int, help="draws which of many like each other run")
    parser.addoption("--all", action="store_true", help="run each of many like each other")


def seed_of(config: pytest.Config) -> int:
    """The seed of this run; xdist's workers have that of their controller."""
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        return int(worker["seed"])
    if config.option.seed is None:
        config.option.seed = random.SystemRandom().randrange(10_000)
    return int(config.option.seed)


def mark_slow(items: Iterable[pytest.Item]) -> None:
    """Mark the tests that `SLOW` names, or whose files or folders it does."""
    for item in items:
        if any(name in SLOW for name in _names(item)):
            item.add_marker(pytest.mark.slow)


def keep_share(items: list[pytest.Item], config: pytest.Config) -> None:
    """Deselect all but a share of tests that differ in their parameters alone."""
    groups: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        groups.setdefault((str(item.path), _function(item)), []).append(item)
    left_out = {
        item
        for key, group in groups.items()
        if len(group) > _kept(group) and not _runs_whole(group)
        for item in _left_out(group, f"{seed_of(config)} {key[1]}")
    }
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def begin_with_slow(items: list[pytest.Item], workers: int) -> None:
    """Let each of xdist's workers begin with slow files; it gets an equal number of tests in a row.

    Those that are left at the end, when one has nothing more to do, are short then.
    """
    fast = [item for item in items if item.get_closest_marker("slow") is None]
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") is not None:
            files.setdefault(item.path, []).append(item)
    ordered: list[pytest.Item] = []
    for worker in range(workers):
        first = [item for file in list(files.values())[worker::workers] for item in file]
        rest = max(0, (len(items) - len(ordered)) // (workers - worker) - len(first))
        ordered += first + fast[:rest]
        del fast[:rest]
    items[:] = ordered + fast


def _left_out(group: Sequence[pytest.Item], seed: str) -> list[pytest.Item]:
    return random.Random(seed).sample(group, len(group) - _kept(group))


def _kept(group: Sequence[pytest.Item]) -> int:
    names = _names(group[0])
    return next((KEPT_OF[name] for name in reversed(names) if name in KEPT_OF), KEPT)


def _runs_whole(group: Sequence[pytest.Item]) -> bool:
    return group[0].get_closest_marker("whole") is not None


def _function(item: pytest.Item) -> str:
    return str(getattr(item, "originalname", item.name))


def _names(item: pytest.Item) -> list[str]:
    """Its folders, its file and its function, as the tables name them."""
    parts = _parts(item)
    names = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    return [*names, f"{names[-1]}::{_function(item)}"]


def _parts(item: pytest.Item) -> tuple[str, ...]:
    """The path of a test's file below the folder of tests."""
    folder = Path(__file__).parent
    path = item.path
    return path.relative_to(folder).parts if path.is_relative_to(folder) else path.parts[-1:]
