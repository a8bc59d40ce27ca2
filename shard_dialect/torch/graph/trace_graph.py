"""torch's graph of a module, functional and of few ops, in which some values inside are marked.

The module is traced twice. The first trace runs it, and the derivatives of its loss, with tensors
without data. The second runs the graph of the first: it replaces writes in place, lists
the indices that a call has to check, and decomposes ops by torch's own tables. Where there are
complex numbers, a third one has pairs of real numbers in their places, and decomposes ops.

    y = sdpa(q, k, v)   ->   matmul, softmax, matmul     what torch composes of others
    y.add_(1)           ->   y = y + 1
    embedding(w, i)     ->   embedding(w, i), and i is a result that must be in 0 ... 63

A mark is an op that returns its operand. It becomes the annotation of that value.
"""

from __future__ import annotations

import dis
import sys
import traceback
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import torch
import torch.utils.checkpoint
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from shard_dialect.errors import ShardError, first_line_of
from shard_dialect.torch.graph.complex_parts import ComplexParts, as_real, has_complex
from shard_dialect.torch.graph.composed_functions import ComposedFunctions
from shard_dialect.torch.graph.decisions import (
    Deciding,
    deciding,
    drop_scalars,
    other_than,
)
from shard_dialect.torch.graph.decompositions import of_users, table
from shard_dialect.torch.graph.exchanged import exchanged
from shard_dialect.torch.graph.flat_module import (
    FlatModule,
    derived_items,
    keeps,
    without_items,
)
from shard_dialect.torch.graph.fx_nodes import is_of_user, location_of, without_elements
from shard_dialect.torch.graph.index_checks import IndexCheck, checks_of, wrapped
from shard_dialect.torch.graph.kept_values import (
    HOOKS,
    ReadByPythonError,
    held_tensors,
    joined,
    numbers_in_traces,
)
from shard_dialect.torch.graph.module_paths import naming_modules
from shard_dialect.torch.graph.random_draws import (
    drawn_by,
    draws_of,
    noticing_replays,
    refuse_replays,
)
from shard_dialect.torch.graph.repeated_decompositions import traced_once
from shard_dialect.torch.graph.strided_views import is_written_to, view_owners
from shard_dialect.torch.graph.tensor_trees import Tensor, is_tensor
from shard_dialect.torch.graph.torch_calls import torch_call

AUTOCAST_DEVICES = ("cpu", "cuda")
Marker = Callable[[Tensor], Tensor]


def _mark(x: torch.Tensor, number: int) -> torch.Tensor:
    return x.clone()


mark = torch.library.custom_op("shard_dialect::mark", _mark, mutates_args=())
"""The operand, marked by a number."""
mark.register_fake(lambda x, number: torch.empty_like(x))
mark.register_autograd(lambda _, gradient: (gradient, None))


def trace(flat: FlatModule, more: Mapping[Any, Any] | None = None) -> Any:
    """The graph of a module, with `more` decompositions. Raises `ShardError` if there is none."""
    examples = flat.examples
    if any(each.is_meta for each in examples):
        with FakeTensorMode(allow_non_fake_inputs=True):
            examples = [_without_data(each) for each in examples]
    with warnings.catch_warnings(), _composed_attention():
        warnings.simplefilter("ignore")  # torch's, of itself
        with noticing_replays() as replays:
            first = _without_caches(flat, examples) or _first(flat, examples)
        _refuse_sparse(first)
        view_owners(first.graph)
        flat.constants = _constants(first)
        _refuse_hidden_state(first, flat)
        _refuse_sizes(first)
        flat.draws = draws_of(first.graph)
        if flat.draws and replays():
            raise refuse_replays()
        _refuse_random(first, flat)
        second = _Second(first, flat)
        functional = torch.func.functionalize(second.with_random, remove="mutations")
        given = [*examples, *flat.random_examples]
        ops = {**traced_once(table()), **of_users(), **(more or {})}
        try:
            with fx_traceback.preserve_node_meta(), without_autocast():
                if has_complex(first.graph):
                    parts = ComplexParts(_traced(functional, given), torch_call)
                    graph = _traced(parts.run, [as_real(each) for each in given], ops)
                else:
                    graph = _traced(functional, given, ops)
        except ShardError:
            raise
        except Exception as error:
            raise second.failed(error) from error
    flat.checks = [*flat.checks, *second.checks]
    _describe_constants(graph)
    _type_numbers(graph)
    _drop_copies(graph)
    _drop_unchanged(graph, flat)
    _end_inside(graph)
    return graph


@contextmanager
def without_autocast() -> Iterator[None]:
    """Within a `with` block, ops have the types that they are called with.

    Where the module turns a user's autocast off, or an op is decomposed that it leaves alone.
    """
    with ExitStack() as stack:
        for device in AUTOCAST_DEVICES:
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


def merge_marks(graph: Any, marks: Sequence[Any]) -> None:
    """Equal marks of one value are one, so that it is one value to save for the gradients."""
    known: dict[tuple[Any, int], Any] = {}
    for node in graph.graph.nodes:
        if node.target is torch.ops.shard_dialect.mark.default:
            value, number = node.args
            first = known.setdefault((value, marks.index(marks[number])), node)
            if first is not node:
                node.replace_all_uses_with(first)
    graph.graph.eliminate_dead_code()


def _without_caches(flat: FlatModule, examples: Sequence[Tensor]) -> Any:
    """As `_first`, of a module that fills what a call before has cached of parameters again.

    It is nothing of one that does not, whose own values it would lack.
    """
    items = derived_items(flat.spaces)
    if not items:
        return None
    with without_items(flat.spaces, items), suppress(Exception):
        graph = _first(flat, examples)
        return graph if items.keys() <= flat.cached else None
    return None


def _first(flat: FlatModule, examples: Sequence[Tensor]) -> Any:
    """The graph of the module, which is told that it is not compiled, or that it is.

    Some modules compute other numbers if they are compiled. So they are told this only if elements
    decide, as many leave such branches out then, or if they cannot be traced otherwise.
    """
    found: Exception | None = None
    for is_compiled, branches in ((False, False), (True, True), (False, True)):
        foreseen, failed = flat.foreseen, list[Exception]()
        while True:
            mode = Deciding(foreseen, examples, decides=branches)
            try:
                with (
                    torch.compiler.set_stance("force_eager"),  # of functions inside
                    exchanged(
                        torch.compiler,
                        _is_compiling_flag=is_compiled,
                        _is_exporting_flag=is_compiled,
                    ),
                    exchanged(torch.utils.checkpoint, CheckpointFunction=_Checkpoints),
                    numbers_in_traces(),
                    ComposedFunctions(),
                    naming_modules(flat.module),
                ):
                    graph = _traced(deciding(flat, mode), examples)
            except Exception as error:  # any that the user's module, or torch for it, ends with
                if isinstance(error, ShardError) and branches:
                    raise
                failed.append(error)
                flat.drop_strays(is_done=False)
                if not branches:  # another one says what is wrong
                    break
                if len(mode.values) > len(foreseen.known) and len(failed) <= _MOST_TURNS:
                    *before, last = mode.path  # as of an assertion
                    foreseen = replace(foreseen, known=(*before, other_than(last)), likely=())
                    continue
                error = failed[0]
                if found is None or isinstance(error, _BY_ELEMENTS):
                    found = _untraceable(error)
                break
            drop_scalars(graph.graph)
            _raise_in_calls(graph.graph)
            flat.path, flat.checks = tuple(mode.path), mode.decisions
            if flat.path and flat.cached:  # it may be computed of the elements that decide
                raise keeps(joined(*next(iter(flat.cached))[:2]))
            return graph
    assert found is not None, "both have failed"
    raise found


def _raise_in_calls(graph: Any) -> None:
    """Let LAPACK's calls raise, for a singular matrix, where torch does so after them."""
    for node in list(graph.nodes):
        if node.target is torch.ops.aten._linalg_check_errors.default:
            call, _ = node.args[0].args
            call.kwargs = {**call.kwargs, "check_errors": True}
            graph.erase_node(node)


_MOST_TURNS = 8
"""How often a trace that fails is tried with the other value of the last decision."""
_BY_ELEMENTS = (GuardOnDataDependentSymNode, DataDependentOutputException, ReadByPythonError)
"""torch's errors for branches and sizes by elements."""


def _untraceable(error: Exception) -> Exception:
    """The error itself if the module raises it, and else ours."""
    if _is_raised_by_user(error):
        return error
    message = f"cannot trace the module: {first_line_of(error)}"
    if isinstance(error, _BY_ELEMENTS):
        message = (
            "the module takes a size, or a number, from the elements of a tensor, and a program "
            "has the same ops at each call: keep all elements, or compute it outside"
        )
    found = ShardError(message, _raised_at(error))
    found.__cause__ = error
    return found


def _is_raised_by_user(error: Exception) -> bool:
    """Whether it comes from a statement, `raise` or `assert`, of code outside of torch."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None or not is_of_user(place.tb_frame.f_code.co_filename):
        return False
    return place.tb_frame.f_code.co_code[place.tb_lasti] == dis.opmap["RAISE_VARARGS"]


class _Checkpoints:
    """`checkpoint(use_reentrant=True)` is as if that were false.

    A reentrant one differentiates inside of a backward pass, which a trace cannot.
    """

    @staticmethod
    def apply(function: Any, preserve: bool, *args: Any) -> Any:
        """As the method of torch's class."""
        return torch.utils.checkpoint.checkpoint(
            function, *args, use_reentrant=False, preserve_rng_state=preserve
        )


def _traced(function: Any, examples: Sequence[Tensor], decompositions: Any = None) -> Any:
    """A trace; the first one has places in Python, which the nodes of the others get from it."""
    make = make_fx(
        function,
        decompositions or {},
        tracing_mode="fake",
        _allow_non_fake_inputs=True,
        record_stack_traces=decompositions is None,
    )
    with (
        exchanged(torch.fx.proxy, CapturedTraceback=_Frames),
        enable_python_dispatcher(),  # its decompositions have derivatives
    ):
        return make(*examples)


class _Frames:
    """In the place of torch's: those of which a trace keeps the places, found without all others.

    In the order of a traceback.
    """

    @staticmethod
    def extract() -> _Frames:
        """Of the stack now."""
        return _Frames()

    def summary(self) -> traceback.StackSummary:
        """Frames of functions named forward, without the text of their lines."""
        found: list[traceback.FrameSummary] = []
        frame: Any = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_name == "forward":
                place = frame.f_code.co_filename, frame.f_lineno, "forward"
                found.append(traceback.FrameSummary(*place, lookup_line=False, line=""))
            frame = frame.f_back
        return traceback.StackSummary.from_list(found[::-1])


@contextmanager
def _composed_attention() -> Iterator[None]:
    """Within a `with` block, no op of torch's stands for a whole layer."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    onednn = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch._C._set_mkldnn_enabled(onednn)
        torch.set_autocast_cache_enabled(cached)
        torch.backends.mha.set_fastpath_enabled(fast)


class _Second(torch.fx.Interpreter):  # type: ignore[misc]
    """Runs the graph of the first trace; results are its results, and then the checked indices."""

    def __init__(self, module: Any, flat: FlatModule) -> None:
        super().__init__(module)
        self._flat = flat
        self._random: Sequence[Tensor] = ()
        self.checks: list[IndexCheck] = []
        self._checked: dict[tuple[Any, ...], Tensor] = {}
        self._now: Any = None

    def with_random(self, *tensors: Tensor) -> Any:
        """Run with the seed or the noise behind the other tensors."""
        count = len(tensors) - len(self._flat.random_examples)
        self._random = tensors[count:]
        return self.run(*tensors[:count])

    def run_node(self, n: Any) -> Any:
        """As the base class does."""
        self._now = n
        if n.op == "call_function":
            _check_types(n)
            for index, check in checks_of(n, location_of(n)):
                key = (index, check.low, check.high, check.ignored)
                if key not in self._checked:
                    self._checked[key] = self.env[index].clone()
                    self.checks.append(check)
        found = super().run_node(n)
        if n.op == "output":
            return (*found, *self._checked.values())
        return found

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """As the base class does, of types that the importer reads: it takes bytes for signed."""
        value = super().get_attr(target, args, kwargs)
        if not isinstance(value, torch.Tensor) or value.dtype not in (torch.bool, torch.uint8):
            return value
        with _disable_current_modes():
            wide = value.to(torch.int32)
        return wide.to(value.dtype)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """As the base class does, with our random numbers, and with indices that are positive."""
        value = self._now.meta.get("val")
        drawn = drawn_by(target, args, kwargs, value) if self._flat.draws else None
        if drawn is not None:
            draw, finish = drawn
            number = self._now.meta["draw"]
            if self._flat.rng == "torch":
                return finish(self._random[number].clone())  # it may be written to
            return finish(draw.by_counter(self._random[0], number + 1))
        if target is torch.ops.aten.as_strided.default and not args[0].is_contiguous():
            raise RuntimeError("it writes to a tensor that has other strides here")
        if target in _VIEWS:
            return self._viewed(target, args, kwargs)
        if _is_pure(target) and _has_no_elements(value):
            return pytree.tree_map(lambda each: torch.zeros(each.shape, dtype=each.dtype), value)
        if _lacks_dims(target, args):
            return self._widened(target, args, kwargs, value)
        return super().call_function(target, wrapped(target, args), kwargs)

    def _widened(self, target: Any, args: Any, kwargs: Any, value: Any) -> Any:
        """Along a dimension of size 1: the importer takes a scalar to have no dimension 0."""
        args, kwargs = pytree.tree_map(_at_least_1d, (args, kwargs))
        found = super().call_function(target, wrapped(target, args), kwargs)
        return pytree.tree_map(lambda each, like: each.reshape(like.shape), found, value)

    def _viewed(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A view or, where the tensor has other strides than in the first trace, a copy."""
        try:
            return super().call_function(target, args, kwargs)
        except (RuntimeError, ValueError):
            if is_written_to(self._now):
                raise
            return args[0].reshape(args[1])

    def failed(self, error: Exception) -> ShardError:
        """The error of the node that runs now."""
        name = getattr(self._now, "target", "the module")
        return ShardError(
            f"{name} cannot be decomposed: {first_line_of(error)}", location_of(self._now)
        )


def _lacks_dims(target: Any, args: Any) -> bool:
    """Whether it is an op along a dimension of a tensor that has none."""
    if not _is_pure(target) or not args or not isinstance(args[0], torch.Tensor):
        return False
    names = {each.name for each in target._schema.arguments}
    return not args[0].dim() and bool(names & {"dim", "dims"})


def _is_pure(target: Any) -> bool:
    """Whether it is an op that writes to nothing, and returns no view."""
    schema = getattr(target, "_schema", None)
    if schema is None or schema.is_mutable:
        return False
    return all(each.alias_info is None for each in schema.returns)


def _has_no_elements(value: Any) -> bool:
    """Whether all results are tensors without elements: some lookups in these end the importer."""
    leaves = pytree.tree_leaves(value)
    return bool(leaves) and all(is_tensor(each) and not each.numel() for each in leaves)


def _at_least_1d(each: Any) -> Any:
    return each.reshape(1) if isinstance(each, torch.Tensor) and not each.dim() else each


_VIEWS = {torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default}


def _constants(graph: Any) -> list[Tensor]:
    read = (getattr(graph, node.target) for node in graph.graph.nodes if node.op == "get_attr")
    return [each for each in read if isinstance(each, torch.Tensor)]


def _refuse_hidden_state(graph: Any, flat: FlatModule) -> None:
    """Raise for parameters that the module reads from elsewhere: they would be constants."""
    for node in graph.graph.nodes:
        value = getattr(graph, node.target, None) if node.op == "get_attr" else None
        if isinstance(value, torch.Tensor) and value.requires_grad:
            named = (
                f" in {joined(*place)}, where a call before may have left it,"
                for place, each in held_tensors(flat.spaces).items()
                if any(leaf is value for leaf in pytree.tree_leaves(each))
            )
            raise ShardError(
                f"the module reads a tensor of shape {list(value.shape)}{next(named, '')} that has "
                "gradients, and is none of its parameters: register it as one, or clear that",
                next((location_of(user) for user in node.users), None),
            )


def _refuse_sparse(graph: Any) -> None:
    """Raise for values inside that are sparse tensors."""
    for node in graph.graph.nodes:
        for each in pytree.tree_leaves(node.meta.get("val")):
            if is_tensor(each) and each.layout != torch.strided:
                raise ShardError(
                    f"{node.target} is of a sparse tensor, which programs do not have: use "
                    "to_dense() of it",
                    location_of(node),
                )


def _refuse_sizes(graph: Any) -> None:
    """Raise for results whose sizes depend on elements, as of a selection by a mask."""
    for node in graph.graph.nodes:
        for each in pytree.tree_leaves(node.meta.get("val")):
            is_open = is_tensor(each) and any(isinstance(size, torch.SymInt) for size in each.shape)
            if is_open or isinstance(each, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                raise ShardError(
                    f"{node.target} has a result whose size, or which itself, depends on elements: "
                    "keep all elements, and choose by torch.where",
                    location_of(node),
                )


def _describe_constants(graph: Any) -> None:
    """The trace keeps the elements of values computed of constants alone: only types are wanted."""
    for node in graph.graph.nodes:
        if "val" in node.meta:
            node.meta["val"] = without_elements(node.meta["val"])


_OF_ONE_TYPE = {
    torch.ops.aten.mm.default,
    torch.ops.aten.bmm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten.baddbmm.default,
    torch.ops.aten.convolution.default,
}


def _check_types(node: Any) -> None:
    """Raise where torch refuses to multiply tensors of two types, though not without their data."""
    if node.target in _OF_ONE_TYPE:
        given = [each.meta["val"].dtype for each in node.args if isinstance(each, torch.fx.Node)]
        if len(set(given)) > 1:
            types = " and ".join(str(each).removeprefix("torch.") for each in dict.fromkeys(given))
            raise ShardError(
                f"{node.target} has operands of {types}: expected one type", location_of(node)
            )


def _without_data(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")


def _refuse_random(graph: Any, flat: FlatModule) -> None:
    for node in graph.graph.nodes:
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded not in tags or _drops_nothing(node):
            continue
        drawn = drawn_by(node.target, node.args, node.kwargs, node.meta.get("val"))
        if drawn is not None and drawn[0].by_elements and flat.rng == "torch":
            raise ShardError(
                f"{node.target} draws as many random numbers as elements say, which nobody knows "
                'before a call: leave rng="torch" out',
                location_of(node),
            )
        if drawn is None:
            raise ShardError(
                f"the module draws random numbers with {node.target}, which we do not: draw them "
                "outside and give them to it",
                location_of(node),
            )


def _type_numbers(graph: Any) -> None:
    """Make tensors of numbers that stand for tensors: torch-mlir would round them to float32.

    So `0.1 - x` of a float64 is `sub(0.1, x)` in a trace.
    """
    for node in list(graph.graph.nodes):
        schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
        formals = schema.arguments if schema else ()
        for number, (value, formal) in enumerate(zip(node.args, formals, strict=False)):
            if isinstance(value, (int, float)) and str(formal.type) == "Tensor":
                _type_number(graph.graph, node, number)


def _type_number(graph: Any, node: Any, number: int) -> None:
    """Make a tensor of argument `number`, of the type that all tensors of the op have with it.

    The first one may be a mask of booleans.
    """
    value, found = node.args[number], (each.meta.get("val") for each in node.all_input_nodes)
    types = [each.dtype for each in found if is_tensor(each)]
    if not types:
        return
    like = torch.empty((1,), dtype=reduce(torch.promote_types, types), device="meta")
    dtype = torch.result_type(like, value)
    with graph.inserting_before(node):
        made = graph.call_function(torch.ops.aten.full.default, ([], value), {"dtype": dtype})
    made.meta = {**node.meta, "val": without_elements(torch.full((), value, dtype=dtype))}
    node.update_arg(number, made)


def _drop_copies(graph: Any) -> None:
    """Copies are values of their own only where something is written in place.

    So are products with one, by which torch decomposes what may be scaled.
    """
    aten = torch.ops.aten
    same = {
        aten.clone.default,
        aten.detach.default,
        aten.alias.default,
        aten.lift_fresh_copy.default,
        aten.lift_fresh.default,
        aten.contiguous.default,
    }
    for node in graph.graph.nodes:
        is_same = node.target in same or _is_by_one(node)
        if is_same and node.args[0].op != "get_attr":
            node.replace_all_uses_with(node.args[0])


def _is_by_one(node: Any) -> bool:
    if node.target is not torch.ops.aten.mul.Tensor or node.args[1] != 1:
        return False
    is_number = isinstance(node.args[1], int | float)
    return is_number and node.args[0].meta["val"].dtype == node.meta["val"].dtype


def _drop_unchanged(graph: Any, flat: FlatModule) -> None:
    """Of the tensors that it is called with, those are results that it changes."""
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    inputs = inputs[: len(inputs) - len(flat.random_examples)]
    (end,) = (node for node in graph.graph.nodes if node.op == "output")
    results = list(end.args[0])
    stop = len(results) - len(flat.checks)
    start = stop - len(inputs)
    changed = [a is not b for a, b in zip(results[start:stop], inputs, strict=True)]
    flat.keep_changed(changed)
    kept = [each for each, new in zip(results[start:stop], changed, strict=True) if new]
    end.args = ((*results[:start], *kept, *results[stop:]),)
    graph.graph.eliminate_dead_code()


def _end_inside(graph: Any) -> None:
    """Let slices end with the tensor: of those written to, the importer lists all indices."""
    aten = torch.ops.aten
    first = {aten.slice.Tensor: 1, aten.slice_scatter.default: 2}
    for node in graph.graph.nodes:
        at = first.get(node.target)
        if at is None or len(node.args) <= at + 2 or not isinstance(node.args[at + 2], int):
            continue
        size = node.args[0].meta["val"].shape[node.args[at]]
        node.args = (*node.args[: at + 2], min(node.args[at + 2], size), *node.args[at + 3 :])


def _drops_nothing(node: Any) -> bool:
    """Whether it is a dropout of probability 0, or one that is not training."""
    name = str(node.target)
    return "dropout" in name and (not node.args[1] or node.args[2] is False)


def _raised_at(error: Exception) -> str | None:
    """The last line of an exception's traceback that is neither torch's nor ours."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [each for each in frames if is_of_user(each.filename)]
    return f"{users[-1].filename}:{users[-1].lineno}" if users else None


@contextmanager
def hooked(
    modules: Sequence[tuple[Any, Callable[[Any, Any], Any] | None, Callable[[Any], Any] | None]],
) -> Iterator[None]:
    """Within a `with` block, change the inputs and outputs of modules.

    Of each module, a function from its arguments to others, and one from its result to another.
    """
    with ExitStack() as stack:
        for module, before, after in modules:
            if before is not None:
                handle = module.register_forward_pre_hook(_before(before), with_kwargs=True)
                stack.callback(handle.remove)
            if after is not None:
                handle = module.register_forward_hook(_after(after))
                stack.callback(handle.remove)
        yield


@contextmanager
def without_hooks(module: Any) -> Iterator[None]:
    """Within a `with` block, the hooks of a partitioned module are off: its own call runs them."""
    if not hasattr(module, "_engine"):
        yield
        return
    everywhere = [getattr(torch.nn.modules.module, f"_global{name}") for name in HOOKS]
    before = [dict(each) for each in everywhere]
    for hooks in everywhere:  # in place: torch reads them by other names, too
        hooks.update({key: partial(_unless, module, each) for key, each in hooks.items()})
    try:
        with exchanged(module, **{name: OrderedDict() for name in HOOKS}):
            yield
    finally:
        for hooks, each in zip(everywhere, before, strict=True):
            hooks.update(each)


def _unless(own: Any, hook: Any, module: Any, *args: Any) -> Any:
    """What a hook of all modules does to one, if that is not our `own`."""
    return None if module is own else hook(module, *args)


def _before(change: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda _, args, kwargs: change(args, kwargs)


def _after(change: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda module, args, result: change(result)
