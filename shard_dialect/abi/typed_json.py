"""Convert plain values to JSON and back, exactly: data that is read must match the types.

    Send(axes=(1,), destination=(3,))  <->  {"is": "Send", "axes": [1], "destination": [3]}

This works for dataclasses of numbers, strings, tuples, mappings and other dataclasses. The data
never chooses the class to construct or the function to call: the types do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from shard_dialect.abi.tensor_types import KNOWN_DTYPES
from shard_dialect.collectives import LocalStep
from shard_dialect.collectives.collective_table import RECORDS

_IS = "is"
_SCALARS = (NoneType, bool, int, float, str)


class MisfitError(Exception):
    """The data does not match the type."""


def to_json(value: object) -> object:
    """The value as `json.dumps` takes it.

    >>> from shard_dialect.collectives import AllReduce
    >>> to_json({"first": AllReduce((0,))})
    {'first': {'is': 'AllReduce', 'axes': [0], 'reduction': 'sum'}}
    """
    if type(value) in _SCALARS:
        return value
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, Mapping):
        return {key: to_json(each) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [to_json(each) for each in value]
    assert is_dataclass(value), f"a {type(value).__name__} has no JSON"
    written = {name: to_json(getattr(value, name)) for name in _hints(cast("Any", type(value)))}
    return {_IS: type(value).__name__, **written}


def from_json(type_: Any, data: object) -> Any:
    """The value of type `type_` that `data` describes. Raises `MisfitError` if it is of no such.

    >>> from shard_dialect.collectives import AllGather, AllReduce
    >>> from_json(AllGather | AllReduce, {"is": "AllReduce", "axes": [0], "reduction": "max"})
    AllReduce(axes=(0,), reduction='max')
    >>> from_json(tuple[int, ...], [1, "2"])
    Traceback (most recent call last):
    shard_dialect.abi.typed_json.MisfitError: '2' is not of type int
    """
    read = _READERS.get(get_origin(type_))
    if read is not None:
        return read(get_args(type_), data)
    if type_ is LocalStep:
        return _union(tuple(RECORDS), data)
    if is_dataclass(type_):
        return _dataclass(type_, data)
    if type(data) is not type_ and not (type_ is float and type(data) is int):  # a sum of nothing
        raise _misfit(data, type_)
    return data


def _misfit(data: object, type_: Any) -> MisfitError:
    return MisfitError(f"{str(data)[:60]!r} is not of type {getattr(type_, '__name__', type_)}")


def _union(types: tuple[Any, ...], data: object) -> Any:
    for each in types:
        try:
            return from_json(each, data)
        except MisfitError:
            continue
    raise _misfit(data, " | ".join(str(getattr(each, "__name__", each)) for each in types))


def _literal(values: tuple[Any, ...], data: object) -> Any:
    for each in values:
        if type(data) is type(each) and data == each:
            return each
    raise _misfit(data, values)


def _tuple(types: tuple[Any, ...], data: object) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise _misfit(data, tuple)
    if types[1:] == (...,):
        return tuple(from_json(types[0], each) for each in data)
    if len(types) != len(data):
        raise _misfit(data, f"tuple of {len(types)}")
    return tuple(from_json(type_, each) for type_, each in zip(types, data, strict=True))


def _sequence(types: tuple[Any, ...], data: object) -> tuple[Any, ...]:
    return _tuple((types[0], ...), data)


def _mapping(types: tuple[Any, ...], data: object) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _misfit(data, dict)
    return {key: from_json(types[1], each) for key, each in data.items()}


def _dtype(_: tuple[Any, ...], data: object) -> np.dtype[np.generic]:
    for each in KNOWN_DTYPES:
        if each.name == data:
            return each
    raise _misfit(data, np.dtype)


def _dataclass(type_: Any, data: object) -> Any:
    hints = _hints(type_)
    if not isinstance(data, dict) or data.keys() != {_IS, *hints} or data[_IS] != type_.__name__:
        raise _misfit(data, type_)
    values = {name: from_json(hint, data[name]) for name, hint in hints.items()}
    try:
        return type_(**values)
    except Exception as error:  # whatever its own checks raise
        raise MisfitError(f"no {type_.__name__}: {error}") from None


@cache
def _hints(type_: Any) -> dict[str, Any]:
    """The types of the fields that make a dataclass; others follow from them."""
    hints = get_type_hints(type_)
    return {each.name: hints[each.name] for each in fields(type_) if each.init}


_READERS: Mapping[Any, Callable[[tuple[Any, ...], object], Any]] = {
    Union: _union,
    UnionType: _union,
    Literal: _literal,
    tuple: _tuple,
    Sequence: _sequence,
    Mapping: _mapping,
    np.dtype: _dtype,
}
