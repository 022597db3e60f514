"""Functions of a user's own, named by the path of their file: `path/to/file.py:function`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley_server.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


def split_reference(text: str) -> tuple[Path, str] | None:
    """Return file and function of `path/to/file.py:function`, or None if it is none."""
    file, colon, name = text.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        return None
    return Path(file), name


def load_function(reference: str, *, kind: str = "reader") -> Callable[..., Any]:
    """Return the function that a reference names.

    Args:
        reference: `path/to/file.py:function`.
        kind: What it is to be, for those who are told that it is none.

    Raises:
        UsageError: There is none, or its file cannot be run.
    """
    parts = split_reference(reference)
    if parts is None:
        raise UsageError(f"{reference!r} is no {kind}; write path/to/file.py:function")
    file, name = parts
    spec = importlib.util.spec_from_file_location(f"parley_{kind}_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UsageError(f"{reference}: there is no file {str(file)!r}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001 - whatever a user's file raises
        raise UsageError(f"{file}: {raised_by(error)}") from None
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"{file}: there is no function {name!r} in it")
    return function  # type: ignore[no-any-return]


def raised_by(error: BaseException) -> str:
    """Return an exception in one line, with the place it came from."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f" ({Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno})" if frame else ""
    return f"{type(error).__name__}: {error}{where}"
