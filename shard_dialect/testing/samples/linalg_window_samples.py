"""Samples of linalg's convolutions and poolings, whose names have the order of dimensions.

conv_2d_nhwc_hwcf    an image [n, h, w, c], a kernel [h, w, c, f], and of both [n, h, w, f]
"""

from __future__ import annotations

from shard_dialect.testing.random_draws import Draws
from shard_dialect.testing.sample import Sample, Tensor

_SPACE = "dhw"


def _layouts(name: str) -> tuple[str, str, str]:
    """The letters of the image, of the kernel, and of the result."""
    parts = name.replace("depthwise_", "").split("_")
    if parts[0] == "pooling":
        image = parts[1]
        return image, "".join(letter for letter in image if letter in _SPACE), image
    if len(parts) == 2:
        plain = _SPACE[3 - int(parts[1][0]) :]
        return plain, plain, plain
    image, kernel = parts[2:4]
    if name.startswith("depthwise"):
        return image, kernel, image + "m" * ("m" in kernel)
    return image, kernel, image.replace("c", "f")


def windowed(name: str, draws: Draws) -> Sample:
    """A sample of the op, with windows that overlap or not."""
    image, kernel, result = _layouts(name)
    few = dict.fromkeys(image + kernel, 0)
    window, stride = draws.pick((3, 1), (2, 2), (1, 1), (3, 2))
    sizes = {letter: draws.size() for letter in few}
    reads = {letter: window if letter in _SPACE else sizes[letter] for letter in kernel}
    if len(image) > 4:  # so that there are not too many elements
        sizes |= {letter: draws.pick(2, 4) for letter in few if letter in "ngcfm"}
        reads |= {letter: sizes[letter] for letter in kernel if letter not in _SPACE}
    gives = sizes | {
        letter: draws.pick(2, 4) if len(image) > 4 else draws.size() for letter in _SPACE
    }
    takes = sizes | {
        letter: (gives[letter] - 1) * stride + window for letter in image if letter in _SPACE
    }
    elements = "i8" if name.endswith("_q") else "i32" if "unsigned" in name else "f32"
    x = Tensor(tuple(takes[letter] for letter in image), elements)
    w = Tensor(tuple(reads[letter] for letter in kernel), elements)
    r = Tensor(tuple(gives[letter] for letter in result), "i32" if elements == "i8" else elements)
    rank = sum(letter in _SPACE for letter in image)
    attributes = (
        f"{{strides = dense<{stride}> : tensor<{rank}xi64>}} "
        if stride > 1 and len(image) > rank
        else ""
    )
    if attributes == "" and stride > 1:
        x = Tensor(tuple(gives[letter] + window - 1 for letter in image), elements)
    zeros, inputs = "", "ins(%0, %1 : $0, $1)"
    if elements == "i8":
        zeros = "%a = arith.constant 1 : i32\n%b = arith.constant 2 : i32\n"
        inputs = "ins(%0, %1, %a, %b : $0, $1, i32, i32)"
    text = f"{zeros}%r = linalg.{name} {attributes}{inputs} outs(%2 : $2) -> $r"
    return Sample.of(f"linalg.{name}", [x, w, r], text, [r])
