"""Files of settings: TOML or JSON in, validated models out, one clear line where they are not."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from parley_server.errors import InputError, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Settings(BaseModel):
    """A part of a file of settings: every key is known, and nothing is converted by guess."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Model = TypeVar("Model", bound=Settings)


def read_settings(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file, or of a JSON file if its name ends so.

    Raises:
        InputError: It cannot be read or parsed.
    """
    return parse_settings(text_of(read_bytes(path), path), path, json_too=path.suffix == ".json")


def read_bytes(path: Path) -> bytes:
    """Return what a file holds.

    Raises:
        InputError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(f"{str(path)!r}: no name of a file: {error}") from None


def text_of(content: bytes, path: Path) -> str:
    """Return a file's content as text.

    Raises:
        InputError: It is none.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file") from None


def parse_settings(text: str, path: Path, *, json_too: bool) -> dict[str, Any]:
    """Return the tables of a text in TOML, or in JSON.

    Raises:
        InputError: It cannot be parsed.
    """
    try:
        tables = json.loads(text, object_pairs_hook=_distinct) if json_too else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "JSON" if json_too else "TOML"
        raise InputError(f"{path}: not {kind}: {_shortly(error)}") from None
    if not isinstance(tables, dict):
        raise InputError(f"{path}: holds no tables")
    return tables


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; TOML refuses a name that stands twice, and so do we."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:64]!r} stands twice")
    return found


def integral(value: Any) -> Any:
    """Take 2.0 for 2, as JSON Schema does."""
    if type(value) is float and value.is_integer():
        return int(value)
    return value


def validate(model: type[Model], tables: Mapping[str, Any], *, source: str) -> Model:
    """Return the model that the tables describe.

    Args:
        model: What the tables must describe.
        tables: As they were read.
        source: What to name in the error: a file, or `command line`.

    Raises:
        UsageError: They do not, with the key and the likely mistake.
    """
    _require_text(tables, source)
    try:
        # JSON's rules: text stands for an enumeration, an array for a tuple.
        return model.model_validate_json(json.dumps(tables, default=str))
    except ValidationError as error:
        raise UsageError(f"{source}: {_first_fault(model, error)}") from None


def _first_fault(model: type[BaseModel], error: ValidationError) -> str:
    # A key that is misspelt is why another is missing.
    faults = sorted(
        error.errors(include_url=False), key=lambda fault: fault["type"] != "extra_forbidden"
    )
    first = faults[0]
    path = ".".join(str(step) for step in first["loc"])
    if first["type"] == "extra_forbidden":
        known = _keys_beside(model, first["loc"])
        hint = did_you_mean(str(first["loc"][-1]), known)
        return f"{path}: unknown key{hint}; there are: {', '.join(known)}"
    message = first["msg"].removeprefix("Value error, ")
    given = "" if first["type"] in {"missing", "value_error"} else f", not {first['input']!r}"
    return f"{path}: {message[:1].lower()}{message[1:]}{given}" if path else message


def _keys_beside(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Return the keys that the table of an unknown key may have."""
    current = model
    for step in location[:-1]:
        if isinstance(step, str) and step in current.model_fields:
            current = _model_in(current.model_fields[step].annotation) or current
    return sorted(current.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that a type is made of, be it optional or a list of it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(part) for part in getattr(annotation, "__args__", ()))
    return next((part for part in found if part is not None), None)


def _require_text(value: Any, source: str, path: str = "") -> None:
    """Refuse names that are not text, such as a command line may hold.

    Raises:
        UsageError: There is one.
    """
    match value:
        case dict():
            for key, item in value.items():
                _require_text(item, source, f"{path}.{key}" if path else str(key))
        case list() | tuple():
            for item in value:
                _require_text(item, source, path)
        case str():
            if any("\ud800" <= mark <= "\udfff" for mark in value):
                shown = value.encode("utf-8", "backslashreplace").decode()
                raise UsageError(f"{source}: {path}: {shown!r} is not text")


def _shortly(error: BaseException) -> str:
    """Return why a file could not be parsed."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    text = str(error)
    return "a number with too many digits" if "int_max_str_digits" in text else text
