"""Arrays: random inputs, and `.npz` and `.safetensors` files."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence

import numpy as np

from shard_dialect.codegen.array_types import SUB_BYTE_DTYPES, Array, TensorType
from shard_dialect.errors import ShardError, cannot
from shard_dialect.model.sharding import Shape
from shard_dialect.processes.output_files import Output
from shard_dialect.runtime.mapped_files import map_member, map_safetensors

SAFETENSORS = ".safetensors"


def random_inputs(types: Sequence[TensorType], seed: int) -> list[Array]:
    """Draw inputs from a normal distribution, or from small integers, the same for one seed.

    Negative integers wrap to the largest ones of unsigned types.
    """
    generator = np.random.default_rng(seed)

    def draw(type_: TensorType) -> Array:
        if type_.dtype == np.bool_:
            return generator.integers(0, 2, type_.shape).astype(np.bool_)
        if np.issubdtype(type_.dtype, np.integer) or type_.dtype in SUB_BYTE_DTYPES:
            return generator.integers(-4, 5, type_.shape).astype(type_.dtype)
        if type_.dtype.kind == "c":
            pairs = generator.standard_normal((*type_.shape, 2))
            return pairs.view(np.complex128)[..., 0].astype(type_.dtype)
        return generator.standard_normal(type_.shape).astype(type_.dtype)

    return [draw(type_) for type_ in types]


def shapes_in(path: str) -> dict[str, Shape]:
    """The shapes of a file's arrays."""
    return {name: array.shape for name, array in arrays_in(path).items()}


def load_inputs(path: str, types: Sequence[TensorType]) -> list[Array]:
    """The arrays `arg0`, `arg1`, ... of a file; raise unless their types are `types`.

    Large ones are mapped, if the file allows, so that who uses a part holds no more.
    """
    arrays = arrays_in(path)
    names = [f"arg{index}" for index in range(len(types))]
    if sorted(arrays) != sorted(names):
        names_found = ", ".join(sorted(arrays)) or "none"
        raise ShardError(f"'{path}' holds {names_found}; expected {', '.join(names) or 'none'}")
    return [
        checked(path, name, arrays[name], type_) for name, type_ in zip(names, types, strict=True)
    ]


def checked(path: str, name: str, array: Array, type_: TensorType) -> Array:
    """An array of a file, as a tensor of this type; raise `ShardError` unless it is one."""
    _check_type(path, name, array, type_)
    return np.asarray(array.view(type_.dtype), order="C")


def arrays_in(path: str) -> dict[str, Array]:
    """The arrays of a file by name, mapped or read. Raises `ShardError`."""
    try:
        if path.endswith(SAFETENSORS):
            return map_safetensors(path)
        with open(path, "rb") as stream, np.load(stream) as file:
            mapped = _mapped(path)
            return {
                name: mapped[name] if name in mapped else _read(path, file, name)
                for name in file.files
            }
    except OSError as error:
        raise cannot("read", path, error) from None
    except (ShardError, MemoryError):
        raise
    except Exception as error:  # whatever numpy, zipfile and zlib raise for its content
        is_unknown = isinstance(error, NotImplementedError | RuntimeError)
        reason = f": {error}" if is_unknown else ""
        raise ShardError(f"cannot read '{path}': it is no .npz file of arrays{reason}") from None


def _mapped(path: str) -> dict[str, Array]:
    with zipfile.ZipFile(path) as file, open(path, "rb") as stream:
        found = {
            member.filename.removesuffix(".npy"): map_member(stream, path, member)
            for member in file.infolist()
            if member.filename.endswith(".npy")
        }
    return {name: array for name, array in found.items() if array is not None}


def _read(path: str, file: Mapping[str, Array], name: str) -> Array:
    try:
        return file[name]
    except ValueError as error:
        if "Object arrays" in str(error):
            raise ShardError(f"'{path}': {name} has dtype object: its elements are none") from None
        raise


def _check_type(path: str, name: str, array: Array, type_: TensorType) -> None:
    if array.dtype.names is not None:
        raise ShardError(
            f"'{path}': {name} has the structured dtype {array.dtype}, expected {type_.dtype}"
        )
    if array.shape != type_.shape:
        raise ShardError(
            f"'{path}': {name} has shape {_shape(array.shape)}, expected {_shape(type_.shape)}"
        )
    # numpy writes element types that it does not know, such as bf16, as raw bytes.
    is_known = type_.dtype.isbuiltin == 1
    raw = array.dtype.type is np.void and array.dtype.itemsize == type_.dtype.itemsize
    if array.dtype != type_.dtype and (is_known or not raw):
        raise ShardError(f"'{path}': {name} has dtype {array.dtype}, expected {type_.dtype}")


def _shape(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "()"


def save_outputs(file: Output, outputs: Sequence[Array]) -> None:
    """Write `result0`, `result1`, ... to a `.npz` file."""
    arrays: Mapping[str, Array] = {f"result{i}": each for i, each in enumerate(outputs)}
    file.replace(lambda stream: np.savez(stream, allow_pickle=False, **arrays))
