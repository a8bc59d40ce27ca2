"""Reports what LLVM cannot go on from as any other error.

    LLVM ERROR: IO failure on output stream: No space left on device       becomes
    error: LLVM ended in cse: IO failure on output stream: No space left on device

LLVM then ends the process, whatever a handler does. So this is for programs, not for libraries.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from shard_dialect.errors import flush, shown
from shard_dialect.ir.bindings import submodule
from shard_dialect.processes.to_parent import what_is_done

_Handler = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
_kept: list[object] = []
"""The handlers, which must live as long as LLVM may call them."""


def report_fatal_errors(tell: Callable[[str], object]) -> None:
    """From here on `tell` gets the message for an error of LLVM that ends this process."""

    def end(reason: bytes) -> None:
        location, what = what_is_done()
        where = f"{shown(location)}: " if location else ""
        text = shown(reason.decode(errors="backslashreplace"))
        tell(f"{where}error: LLVM ended in {shown(what) or 'the pipeline'}: {text}")
        flush()
        os._exit(1)

    bindings = Path(submodule("_mlir_libs._mlir").__file__ or "").parent
    for path in bindings.glob("lib*CAPI*.so*"):
        with suppress(OSError, AttributeError):  # they may have no such library, or function
            handler = _Handler(end)
            ctypes.CDLL(str(path)).LLVMInstallFatalErrorHandler(handler)
            _kept.append(handler)
            return
