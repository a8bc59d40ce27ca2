"""A program in Python as the prover sees it: one op, which a child process evaluates."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Timer
from typing import Any, BinaryIO, cast

import numpy as np

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.proof.machine import Data, Machine, Raised, Torn, Unproven, Value, means
from shard_dialect.proof.reading import Block, Function, Op, Program, Type
from shard_dialect.proof.written.messages import read_message, write_message

_NAME = "python.program"
_MOST_SECONDS = 600
"""For one evaluation."""


@dataclass
class Session:
    """The child process of one file, started when it is asked first."""

    path: str
    size: int
    names: tuple[str, ...] = ()
    """The ops of the unsharded program."""
    _child: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def ask(self, request: dict[str, Any], given: Sequence[Data]) -> tuple[Any, list[Data]]:
        """The answer. Raises `ShardError`, or `Unproven`, which may be `Torn` or `Raised`."""
        child = self._started()
        limit = Timer(_MOST_SECONDS, child.kill)
        limit.start()
        try:
            write_message(cast("BinaryIO", child.stdin), request, given)
            answer = read_message(cast("BinaryIO", child.stdout))
        except (BrokenPipeError, ValueError):
            answer = None
        finally:
            limit.cancel()
        if answer is None:
            what = f"its process ended, or gave no answer in {_MOST_SECONDS} s"
            raise Unproven(what, self.at(1))
        message, found = answer
        if not message["ok"]:
            kind = {"torn": Torn, "raised": Raised}.get(message["kind"], Unproven)
            raise kind(message["what"], self.at(message["line"] or 1))
        return message, found

    def at(self, line: int) -> str:
        """A place in the file."""
        return f"{self.path}:{line}:1"

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "shard_dialect.proof.written.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=tempfile.gettempdir(),
            )
            write_message(
                cast("BinaryIO", self._child.stdin), {"path": self.path, "size": self.size}, []
            )
        return self._child

    def end(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            with suppress(OSError), self._child:  # closes the pipes, and waits
                pass
            self._child = None

    def program(self, unsharded: Function) -> Program:
        """A program whose one function has the types of the unsharded one, and is the file."""
        body = unsharded.body
        last = body.ops[-1]
        results = tuple(range(len(body.arguments), len(body.arguments) + len(last.operands)))
        arguments = tuple(range(len(body.arguments)))
        types = tuple(unsharded.result_types)
        with unsharded.location.context:
            place = ir.Location.file(self.path, 1, 1)
        op = Op(_NAME, arguments, results, body.types, types, {"session": self}, (), (), place)
        end = Op(last.name, results, (), types, (), {}, (), (), place)
        none: list[Any] = [{}] * max(len(arguments), len(results))
        function = Function(
            unsharded.name, Block(arguments, body.types, (op, end)), none[: len(arguments)],
            none[: len(results)], types, unsharded.argument_names, False, "local", place,
        )  # fmt: skip
        return Program({function.name: function}, {}, {}, {})


@means(_NAME)
def _evaluated(m: Machine, op: Op, values: Sequence[Value]) -> Sequence[Value]:
    session: Session = op.attributes["session"]
    given = [
        m.integers(value) if _is_number(type_) else m.elements(value)
        for value, type_ in zip(values, op.operand_types, strict=True)
    ]
    request = {
        "kind": "elements",
        "gap": m.field.gap,
        "seed": m.field.seed,
        "joins": m.field.joins,
        "garbage": int(m.generator.integers(1 << 31)),
        "is_ordered": m.is_ordered,
        "splits_exponents": m.splits_exponents,
        "is_wide": m.is_wide,
        "cancels": m.cancellation.is_law,
        "names": session.names,
        "dtypes": [dtype_of(type_) for type_ in op.operand_types],
    }
    answer, found = session.ask(request, given)
    m.sampled.what.update(answer["sampled"])
    m.cancellation.is_used |= answer["cancels"]
    if len(found) != len(op.types):
        raise ShardError(f"it gives {len(found)} results; expected {len(op.types)}", session.at(1))
    results = []
    for number, (data, type_, dtype) in enumerate(
        zip(found, op.types, answer["dtypes"], strict=True)
    ):
        if data.shape != type_.shape or np.dtype(_BITS.get(dtype, dtype)).kind != _kind(type_):
            shape = "x".join([*map(str, data.shape), dtype])
            what = f"result{number} is {shape}; expected {type_.text}"
            raise ShardError(what, session.at(1))
        results.append(Value(data, not _is_number(type_)))
    return results


_BITS = {"bfloat16": "float32"}


def _is_number(type_: Type) -> bool:
    return type_.is_integer and not type_.is_bit


def _kind(type_: Type) -> str:
    if type_.is_bit:
        return "b"
    return {"float": "f", "complex": "c", "unsigned": "u"}.get(type_.kind, "i")


def dtype_of(type_: Type) -> str:
    """The name of numpy's elements. Raises `ShardError` for a type that it has none for."""
    width = type_.width
    if type_.is_bit:
        return "bool"
    if type_.kind == "complex":
        return "complex64" if "f32" in type_.text else "complex128"
    if type_.is_float:
        return "bfloat16" if "bf16" in type_.text else f"float{width}"
    if type_.is_integer:
        return f"{'u' if type_.kind == 'unsigned' else ''}int{width or 64}"
    raise ShardError(f"an argument of type {type_.text} has no array in Python")
