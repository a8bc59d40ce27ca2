"""Search for the cheapest shardings of tensors without annotations: `opt --auto`, `sd.auto`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil, inf
from typing import Any, TypeVar, get_args

from shard_dialect.abi.lowered_program import choose_entry
from shard_dialect.analysis.changes.annotations import annotations_in
from shard_dialect.analysis.changes.what_if_question import names_of
from shard_dialect.analysis.program_costs import Costs
from shard_dialect.analysis.reasons.explained_passes import imported
from shard_dialect.errors import Diagnostic, ShardError, as_symbol, did_you_mean
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import form_of, functions_of, name_of
from shard_dialect.ir.grids import grids_of
from shard_dialect.model import Grid
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.model.notebook_html import print_text, table_html
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.passes.pipelines import BEFORE_PROPAGATION
from shard_dialect.processes.to_parent import Count
from shard_dialect.search.best_first import PROVEN, Found, Search
from shard_dialect.search.budget import Budget, stopped_by_signal
from shard_dialect.search.choices.integer_program import is_available
from shard_dialect.search.decisions import dimensions_of
from shard_dialect.search.evaluate import Evaluator, Objective, OwnObjective
from shard_dialect.search.guide import Guide
from shard_dialect.search.plan import Plan
from shard_dialect.search.recipes import AXIS, Recipe, first_recipes, within_stages
from shard_dialect.search.searched_function import SearchedFunction, searched_function
from shard_dialect.search.state import states_of, tie


@dataclass(frozen=True)
class AutoOptions:
    """The objective of a search, and its limits."""

    objective: Objective | str = "time"
    """A name, also one of a plugin's, or a function of a plan's `Costs`: less is better."""
    memory_limit: int | None = None
    """The bytes that a device has."""
    device_model: str | DeviceModel = "h100"
    seconds: float | None = None
    """60 if not given, without `plans`."""
    plans: int | None = None
    """The number of plans to try, for as long as that takes: the result is then the same on any
    machine."""
    grid: tuple[int, ...] | None = None
    """The shape of the grid, for a module that has none."""
    devices: int | None = None
    """The number of devices, for a module that has no grid: its shape is searched for, too."""
    axis_names: tuple[str, ...] = ()
    """The names of that grid's axes."""
    pipelines: bool = False
    """Whether to try pipelines, too, whose stages are along the grid's axis 0."""

    def __post_init__(self) -> None:
        """Raise `ShardError` for what is no option of a search."""
        object.__setattr__(self, "objective", _objective(self.objective))
        limit: object = self.memory_limit
        if isinstance(limit, str):
            known = size_in_bytes(limit)
            raise ShardError(f"--auto: memory_limit={limit!r} is a text: write {known}, in bytes")
        if self.seconds is not None:
            _seconds(str(self.seconds))
        if self.plans is not None:
            _plans(str(self.plans))
        for size in (*(self.grid or ()), *(() if self.devices is None else (self.devices,))):
            if size < 1:
                what = "grid" if self.grid else "devices"
                raise ShardError(f"--auto: {what} of size {size}: expected 1 or more")
        for one, other in (("plans", "seconds"), ("grid", "devices")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ShardError(f"--auto: {one} is given together with {other}: use one of them")

    def without_pipelines(self) -> AutoOptions:
        """The options, for a caller that takes annotations. Raises `ShardError` for pipelines."""
        if self.pipelines:
            raise ShardError(
                "sd.AutoOptions(pipelines=True) is for sd.auto: a search finds shardings alone here"
            )
        return self

    @property
    def own_objective(self) -> OwnObjective:
        """The objective of the integer program: time, where a user's function is the search's."""
        found = _objective(self.objective)
        return "time" if callable(found) else found

    @classmethod
    def read(cls, text: str) -> AutoOptions:
        """The options in a text, as `opt --auto` takes it. Raises `ShardError`.

        >>> options = AutoOptions.read("grid=2x4 objective=bytes memory-limit=16GiB")
        >>> options.grid, options.objective, options.memory_limit
        ((2, 4), 'bytes', 17179869184)
        """
        read: dict[str, Any] = {}
        for each in text.strip("{}").replace(",", " ").split():
            name, _, value = each.partition("=")
            if name not in _READERS:
                known = ", ".join(_READERS)
                known += did_you_mean(name, _READERS)
                if name.isdecimal():
                    known += "; sizes of a grid are written 2x4"
                raise ShardError(f"--auto has no option '{name}': expected {known}")
            if name.replace("-", "_") in read:
                raise ShardError(f"--auto: {name} is given twice")
            try:
                read[name.replace("-", "_")] = _READERS[name](value)
            except ValueError:
                raise ShardError(f"--auto: cannot read {name}={value}") from None
        options = cls(**read)
        if "grid=auto" in text and options.devices is None:
            raise ShardError("--auto: grid=auto needs devices=N, the number of devices")
        return options


_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "": 1}


_ANSWERS = {"yes": True, "no": False}


def _seconds(text: str) -> float:
    if not 0 < float(text) < inf:
        raise ShardError(f"--auto: seconds={text} is no time: expected a number above 0")
    return float(text)


def _plans(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ShardError(f"--auto: plans={text} is no number of plans: expected 1 or more")
    return int(text)


def size_in_bytes(text: str) -> int:
    """The bytes of a size such as `16GiB`. Raises `ShardError`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(KiB|MiB|GiB|TiB|)", text)
    if match is None:
        raise ShardError(f"--auto: memory-limit={text} is no size: write 500000, 512MiB, 16GiB")
    return int(float(match[1]) * _UNITS[match[2]])


_Objective = TypeVar("_Objective", bound=Callable[[Costs], float])
_REGISTERED: dict[str, Callable[[Costs], float]] = {}


def register_objective(name: str) -> Callable[[_Objective], _Objective]:
    """Let a function of a plan's `Costs` be what `--auto=objective=` calls `name`: less is better.

    `sd.auto` takes the function itself. Raises `ShardError` for a name that is taken.
    """
    if name in _REGISTERED or name in get_args(OwnObjective):
        raise ShardError(f"objective '{name}' exists already")

    def register(function: _Objective) -> _Objective:
        _REGISTERED[name] = function
        return function

    return register


def _objective(given: Objective | str) -> Objective:
    if callable(given):
        return given
    match given:
        case "time" | "bytes" | "memory":
            return given
    if given in _REGISTERED:
        return _REGISTERED[given]
    known = [*get_args(OwnObjective), *_REGISTERED]
    nearest = did_you_mean(given, known)
    raise ShardError(
        f"--auto: objective={given} is none: expected one of {', '.join(known)}{nearest}"
    )


_READERS: dict[str, Callable[[str], Any]] = {
    "objective": _objective,
    "memory-limit": size_in_bytes,
    "device-model": str,
    "seconds": _seconds,
    "plans": _plans,
    "grid": lambda text: None if text == "auto" else tuple(map(int, text.split("x"))),
    "devices": int,
    "pipelines": lambda text: _ANSWERS[text] if text in _ANSWERS else bool(int(text)),
}


AUTO = AutoOptions()
"""In place of shardings or a plan: a search with the default options finds them."""


GRID = "grid"
"""The name of a grid that the module does not have yet."""


@dataclass(frozen=True)
class AutoResult:
    """The result of a search."""

    module: ir.Module
    """The program with annotations of arguments and results where it had none."""
    found: Found
    recipe: Recipe | None = None
    """The pipeline that `module` is, if that is better."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """The warnings that the search gave."""

    @property
    def costs(self) -> Costs:
        """The cost of the program for each device."""
        return self.found.costs

    @property
    def is_proven(self) -> bool:
        """Whether no plan is better: all were evaluated, or the bound is met."""
        return self.found.is_proven

    def __str__(self) -> str:
        found = self.found
        all_ = "all " if found.is_exhausted else ""
        before = ""
        if found.before is not None:
            changed = "" if found.before == found.costs else f": {found.before}"
            before = f" (as it was{changed})"
        text = f"{found.costs}{before}: the best of {all_}{found.evaluated} plans that were tried"
        if self.recipe is not None:
            text += f", a pipeline: {self.recipe}"
        if found.gap is None:
            return text
        if found.gap < PROVEN:
            return f"{text}, and no other is better"
        if found.gap >= 0.9995:  # what has to be computed takes no time
            return f"{text}, and the lower bound of all plans is next to nothing"
        return f"{text}, and no other is better by more than {found.gap:.1%}"

    _repr_pretty_ = print_text

    def _repr_html_(self) -> str:
        with self.module.context:
            placed = annotations_in(self.module.operation)
        rows = [
            [
                as_symbol(each.site.function),
                names_of(each)[-1],
                "x".join(map(str, each.shape)),
                each.annotation.sharding if each.annotation else "not annotated",
            ]
            for each in placed
            if each.site.function
        ]
        return table_html(str(self), ["function", "tensor", "shape", "sharding"], rows)


def auto(
    module: ir.Module,
    options: AutoOptions,
    entry: str | None = None,
) -> AutoResult:
    """Find annotations for the arguments and results of a module that have none.

    The annotations of the module hold, and it is not changed. Where no plan fits the memory, the
    result computes cheap values again instead of storing them. Raises `ShardError` if the module
    has no grid and none is asked for, if it is partitioned already, or if no plan fits the memory
    limit.
    """
    name = choose_entry(module.operation, entry)
    function = next(op for op in functions_of(module.operation) if name_of(op) == name)
    if form_of(function) not in ("annotated", "propagated"):
        raise ShardError(
            f"function {as_symbol(name)} is partitioned already: there is nothing to find"
        )
    seconds = _SECONDS if options.seconds is None else options.seconds
    plans = options.plans
    if options.pipelines:  # besides what is tried without, so that no result is worse
        seconds += _PIPELINED * seconds
        plans = None if plans is None else plans + ceil(_PIPELINED * plans)
    budget = Budget(seconds if plans is None else inf, plans)
    shapes = [options.grid] if options.devices is None else grid_shapes(options.devices)
    found, problem, unfit = _best_of(
        [
            partial(Problem.of, module, replace(options, grid=each, devices=None), name)
            for each in shapes
        ],
        options,
        budget,
    )
    if found is not None and unfit is not None and not budget.is_stopped:
        # Some values may be computed again instead: in the search's time once more.
        again = partial(Problem.of, module, unfit.options, name, "rematerialize")
        other, its, _ = _best_of([again], options, Budget(budget.seconds, plans))
        if other is not None and other.score < found.score:
            found, problem = other, its
    return problem.checked(found)


def _best_of(
    problems: Sequence[Callable[[], Problem]], options: AutoOptions, budget: Budget
) -> tuple[Found | None, Problem, Problem | None]:
    """The best plan of several problems, with that of them which it is for.

    Each problem begins, and the best ones go on the longest; pipelines are tried after that. The
    last of the three is the problem with the best plan without stages, if that does not fit.
    """
    count = Count("s", budget.seconds if budget.seconds < inf else None, "--auto")
    searches: list[tuple[Search, Problem]] = []

    def ranked() -> list[tuple[Search, Problem]]:
        """The searches, that with the best plan first."""
        return sorted(searches, key=lambda pair: pair[0].rank)

    share = 1 + _PIPELINED if options.pipelines else 1
    alone = Budget(budget.seconds / share, options.plans, budget)
    with stopped_by_signal(budget, lambda: any(each.found for each, _ in searches)), count:
        waiting = _ranked(problems, alone.part(_PRICED))
        begun = alone.part(_BEGUN)
        for number, read in enumerate(waiting):
            problem = read()
            searches.append((problem.search(count), problem))
            part = begun.part(max(_OF_FIRST, 1 / (len(problems) - number)))
            searches[-1][0].begin(part, is_first=not number)
            if begun.is_over and any(each.found for each, _ in searches):
                break
        *others, (last, _) = ranked()
        for search, _ in others:
            search.improve(alone.part(0.5))
        last.improve(alone)
        pipelined = _pipelined(ranked(), budget, count)
        ranked()[0][0].improve(budget)
    best, problem = ranked()[0]
    found = best.found
    unfit = problem if found is not None and found.score.excess else None
    before = None if found is None else found.before
    if pipelined is not None and pipelined[0].rank < best.rank:
        found, problem = pipelined[0].found, pipelined[1]
    if found is not None:
        recipes = [each for _, each in searches if each.recipes()]
        bounds = [*(each.bound for each, _ in searches), *(each.shared_out() for each in recipes)]
        known = [each for each in bounds if each is not None]
        is_all = len(searches) == len(problems)
        is_exhausted = is_all and not recipes and all(each.is_exhausted for each, _ in searches)
        found = replace(
            found,
            evaluated=budget.tried,
            is_exhausted=is_exhausted,
            bound=min(known) if len(known) == len(bounds) and is_all else None,
            before=before,
        )
    return found, problem, unfit


def _ranked(
    problems: Sequence[Callable[[], Problem]], budget: Budget
) -> Sequence[Callable[[], Problem]]:
    """The problems, those first whose best solution costs least; then those there is no time for.

    A solution is much quicker than the passes, of which a large program allows a few dozen runs.
    """
    if len(problems) == 1 or not is_available():
        return problems
    priced = []
    for number, read in enumerate(problems):
        if budget.is_over:
            break
        problem = read()
        priced.append((problem.guide.price(budget), number, problem))
    ranked = [problem for *_, problem in sorted(priced, key=lambda each: each[:2])]
    return [*(partial(lambda each: each, each) for each in ranked), *problems[len(priced) :]]


def _pipelined(
    searches: Sequence[tuple[Search, Problem]], budget: Budget, count: Count
) -> tuple[Search, Problem] | None:
    """The best pipeline, where any can be made, on the grids of these searches."""
    found = []
    for number, (search, problem) in enumerate(searches):
        part = budget.part(1 / (len(searches) - number))
        best: tuple[Search, Problem] | None = None
        tried: set[Recipe] = set()
        waiting = problem.recipes()
        while waiting and not part.is_over:
            recipe = waiting.pop(0)
            if recipe in tried or _is_slower(recipe, search):
                continue
            tried.add(recipe)
            its = problem.pipelined(recipe)
            other = its.search(count, is_guided=False)
            other.try_all(its.plans(recipe, search.found), part)
            if other.found is None:
                continue  # the arguments have no batch, say: those of others may
            if best is None or other.rank < best[0].rank:
                best = other, its
                near = recipe.near(problem.batch(recipe), problem.grid)
                waiting = [] if _is_far(other, search) else list(near)
        if best is not None:
            if not _is_far(best[0], search):
                best[0].improve(part)
            found.append(best)
    return min(found, key=lambda pair: pair[0].rank, default=None)


def _is_far(pipelined: Search, search: Search) -> bool:
    """Whether a pipeline costs so much more that recipes near it will not be the best."""
    one, other = pipelined.found, search.found
    if one is None or other is None or callable(search.evaluator.objective):
        return False
    is_far = one.score.objective > _FAR * other.score.objective
    return is_far and not (one.score.excess or other.score.excess)


def _is_slower(recipe: Recipe, search: Search) -> bool:
    """Whether a stage waits so long that the best plan without stages, which fits, is faster.

    At the best, the devices share the work of the program as it was, and wait.
    """
    found, objective = search.found, search.evaluator.objective
    if found is None or found.score.excess or objective != "time" or found.before is None:
        return False
    ideal = found.before.seconds / search.grid.size / (1 - recipe.waits)
    return ideal >= found.costs.seconds


def grid_shapes(devices: int) -> list[tuple[int, ...]]:
    """The shapes of a grid of so many devices, of up to three axes; for many devices, up to two.

    >>> grid_shapes(8)
    [(8,), (2, 4), (4, 2), (2, 2, 2)]
    """
    pairs = [(n, devices // n) for n in range(2, devices) if devices % n == 0]
    triples = [
        (first, n, rest // n)
        for first, rest in pairs
        for n in range(2, rest)
        if rest % n == 0 and first <= n <= rest // n
    ]
    return [(devices,), *pairs, *(triples if devices <= _MANY else [])]


_PIPELINED = 0.4
"""What pipelines have besides the time, and the number of plans, of a search without."""
_FAR = 2
"""Neighbours of a recipe seldom take less than half of its time: the others go on instead."""
_PRICED = 0.1
"""The share of the time in which grids are compared by prices alone."""
_OF_FIRST = 0.3
"""The least share of the time left to begin with that a search has: the first ones are best."""
_BEGUN = 0.5
"""The share of the time, and of the plans, with which the searches on all grids begin."""
_SECONDS = 60.0
_INSIDE = ",".join(("inline", *BEFORE_PROPAGATION))
"""The passes after which values inside a function are annotated: what `--spmd` propagates through,
but for reshapes that it moves by annotations."""
_MANY = 16
"""The number of devices above which a grid has at most two axes."""


@dataclass(frozen=True)
class Problem:
    """A module on one grid, read for the search."""

    entry: str
    options: AutoOptions
    grid: Grid
    free: frozenset[int]
    function: SearchedFunction
    simplified: SearchedFunction
    evaluator: Evaluator
    untied: str
    """The module without the sharding groups of state."""

    @classmethod
    def of(cls, module: ir.Module, options: AutoOptions, entry: str, pipeline: str = "") -> Problem:
        """Read a module, which gets the grid that is asked for, after some passes.

        Raises `ShardError` as `auto`.
        """
        text = _with_grid(module.operation.get_asm(enable_debug_info=True), module, options)
        start = imported(text)
        if pipeline:
            run_pipeline(start, pipeline)
        grid = _grid_of(start)
        free = _free(start.operation, entry)
        known = searched_function(_after(_text(start), "inline"), entry)
        states = states_of(known, free) if known else ()
        untied = _text(start)
        tie(start.operation, entry, states)
        inlined = _text(_after(_text(start), _INSIDE))
        function = searched_function(ir.Module.parse(inlined), entry, states)
        simplified = searched_function(_after(inlined, "canonicalize,cse"), entry, states)
        if function is None or simplified is None:
            raise ShardError(f"{as_symbol(entry)} has no tensors: there is nothing to find")
        evaluator = Evaluator(
            _text(start),
            inlined,
            entry,
            grid.name,
            DeviceModel.read(options.device_model),
            _objective(options.objective),
            options.memory_limit,
            function.sites,
        )
        return cls(entry, options, grid, free, function, simplified, evaluator, untied)

    def recipes(self) -> list[Recipe]:
        """The pipelines to begin with, if any are asked for."""
        if not self.options.pipelines:
            return []
        return first_recipes(dimensions_of(self.function), self.function.states, self.grid)

    def shared_out(self) -> float | None:
        """The objective where devices share all products, below which no pipeline is, if known."""
        is_timed = self.options.objective == "time" and self.options.plans is None
        return self.guide.shared_out() if is_timed and is_available() else None

    def batch(self, recipe: Recipe) -> int:
        """The size of the batch."""
        return self.function.shapes[recipe.arguments[0]][0]

    def plans(self, recipe: Recipe, found: Found | None) -> list[Plan]:
        """The plans to begin with for a pipeline, where without one this plan is the best.

        None; the batch split along all axes of a stage; and the best one's splits along these.
        """
        axes = tuple(axis for axis in range(self.grid.rank) if self.grid.axes_size((axis,)) > 1)
        plans = [Plan()]
        if axes and self.batch(recipe) % (recipe.microbatches * self.grid.size) == 0:
            rest = {n: len(self.function.shapes[n]) - 1 for n in recipe.arguments if n in self.free}
            plans.append(Plan().with_splits({n: (axes, *[()] * k) for n, k in rest.items()}))
        if found is not None:
            plans.append(
                found.plan.without_loops()
                if self.grid.axes_size((AXIS,)) > 1
                else within_stages(found.plan)
            )
        return list(dict.fromkeys(plans))

    def pipelined(self, recipe: Recipe) -> Problem:
        """The program of which a pipeline is made; its plans split along axes of a stage."""
        evaluator = replace(
            self.evaluator,
            text=self.untied,
            inlined=_text(_after(self.untied, _INSIDE)),
            recipe=recipe,
            states=self.function.states,
        )
        sizes = (
            self.grid.axes_size((AXIS,)) // recipe.stages,
            *self.grid.sizes_along(range(1, self.grid.rank)),
        )
        grid = replace(self.grid, shape=sizes)
        return replace(self, grid=grid, evaluator=evaluator)

    def search(self, count: Count, *, is_guided: bool = True) -> Search:
        """The search, which tells `count` what it does."""
        guide = self.guide if is_guided and is_available() else None
        dimensions = dimensions_of(self.function)
        return Search(self.evaluator, dimensions, self.grid, self.free, count, guide)

    @cached_property
    def guide(self) -> Guide:
        """What guides the search."""
        return Guide.of(
            self.function,
            self.simplified,
            self.grid,
            self.evaluator.device_model,
            self.options.own_objective,
            self.options.memory_limit,
            self.free,
        )

    def checked(self, found: Found | None) -> AutoResult:
        """The module with the plan. Raises `ShardError` for none, or one that needs too much."""
        if found is None:
            self.evaluator.known_costs(Plan())  # raises for a program that is invalid as it is
            raise ShardError(f"no sharding of {as_symbol(self.entry)} can be partitioned")
        if found.score.excess:
            raise ShardError(
                f"no sharding was found with which {as_symbol(self.entry)} takes "
                f"{self.options.memory_limit:,} bytes on a device: the best one takes "
                f"{found.costs.peak:,}, {found.score.excess:,} too many"
            )
        evaluator = self.evaluator
        return AutoResult(evaluator.annotated(found.plan), found, evaluator.recipe)


def _text(module: ir.Module) -> str:
    return module.operation.get_asm(enable_debug_info=True)


def _after(text: str, passes: str) -> ir.Module:
    """The module in a text after some passes."""
    module = ir.Module.parse(text)
    run_pipeline(module, passes)
    return module


def _free(module: ir.Operation, entry: str) -> frozenset[int]:
    """The numbers of the entry's arguments and results that have no annotation."""
    function = next(op for op in functions_of(module) if name_of(op) == entry)
    arguments = len(function.regions[0].blocks[0].arguments)
    return frozenset(
        each.site.number + (arguments if each.site.kind == "result" else 0)
        for each in annotations_in(module)
        if each.site.function == entry and each.annotation is None
    )


def _with_grid(text: str, module: ir.Module, options: AutoOptions) -> str:
    """The module's text, with the grid that is asked for. One without axes is none."""
    grids = {name: each for name, each in grids_of(module.operation).items() if each.shape}
    if options.grid is None or grids:
        if options.grid is not None and all(each.shape != options.grid for each in grids.values()):
            (first, *_) = grids.values()
            asked = "x".join(map(str, options.grid))
            raise ShardError(
                f"a grid of {asked} is asked for, and the module has {first}: ask for none, or "
                "pipe what shard-opt --erase-sharding leaves, which has no grid and no annotations"
            )
        return text
    copy = ir.Module.parse(text, module.context)
    shape = "x".join(map(str, options.grid))
    names = ", ".join(map(json.dumps, options.axis_names))
    attributes = f" {{axis_names = [{names}]}}" if names else ""
    declared = ir.Module.parse(
        f"shard.grid {as_symbol(GRID)}(shape = {shape}){attributes}", module.context
    )
    op = declared.body.operations[0].operation.detach_from_parent()
    ir.InsertionPoint.at_block_begin(copy.body).insert(op)
    return copy.operation.get_asm(enable_debug_info=True)


def _grid_of(module: ir.Module) -> Grid:
    grids = [each for each in grids_of(module.operation).values() if each.shape]
    if not grids:
        raise ShardError(
            "the module has no grid: say which devices there are, as in grid=2x4, or devices=8"
        )
    if len(grids) > 1:
        names = ", ".join(as_symbol(each.name) for each in grids)
        raise ShardError(f"the module has several grids ({names}): a search uses one")
    if not grids[0].is_static:
        raise ShardError(f"grid {grids[0]} has unknown sizes: give them by --specialize=grid=...")
    return grids[0]
