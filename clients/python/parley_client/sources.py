"""Objects of a user's own, named by where they stand: `./mine.py:MyPolicy`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley_client.errors import WrongUsage

if TYPE_CHECKING:
    from types import ModuleType


def is_path(name: str) -> bool:
    """Whether a name says where an object stands, rather than what it is called."""
    return ".py:" in name or name.endswith(".py")


def load_object(name: str, kind: str) -> Any:
    """Return the object at `FILE.py:NAME`.

    Args:
        name: Where it stands.
        kind: What it is to be, for the error.

    Raises:
        WrongUsage: There is no such file or object, or the file cannot be executed.
    """
    file, _, attribute = name.rpartition(":")
    if not file.endswith(".py") or not attribute:
        raise WrongUsage(f"{name!r}: which {kind} in it? write FILE.py:NAME")
    module = _load(Path(file))
    try:
        return getattr(module, attribute)
    except AttributeError:
        known = sorted(
            key
            for key, value in vars(module).items()
            if not key.startswith("_") and callable(value)
        )
        found = f"; there are: {', '.join(known)}" if known else ""
        raise WrongUsage(f"{file} has no {attribute!r}{found}") from None


def _load(path: Path) -> ModuleType:
    if "\0" in str(path) or not path.is_file():
        raise WrongUsage(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise WrongUsage(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise WrongUsage(f"{path}: {type(error).__name__}: {error}{line}") from error
    return module
