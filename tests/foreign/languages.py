"""The dispatchers in other languages: what each needs, how it is built, and how it is started.

python -m tests.foreign.languages      # name, role and command of each, parted by tabs
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pytest

from tests.support import PROJECT

CLIENTS = PROJECT / "clients"
ROLES = ("fifo", "easy", "smallest")


@dataclass(frozen=True, slots=True)
class Language:
    """A language that has a client.

    Attributes:
        name: What its folder in `clients/` is called.
        toolchain: Programs that must be there to build it and to run what was built.
        build: Command that builds it, from the project's folder.
        programs: Command of each dispatcher, from the project's folder.
        built: What the build leaves behind and the programs need.
    """

    name: str
    toolchain: tuple[str, ...]
    build: str
    programs: Mapping[str, tuple[str, ...]]
    built: tuple[str, ...]

    def command(self, role: str, *options: str) -> list[str]:
        """Return the command of a dispatcher, to be started from anywhere."""
        return [
            str(PROJECT / part) if part.startswith("clients/") else part
            for part in self.programs[role]
        ] + list(options)

    def missing(self) -> str | None:
        """Return what is missing and the command that helps, or None if all is there."""
        tools = [tool for tool in self.toolchain if shutil.which(tool) is None]
        if tools:
            return f"{self.name}: {', '.join(tools)} not found; clients/{self.name}/README.md"
        absent = [path for path in self.built if not (PROJECT / path).exists()]
        if absent:
            return f"{self.name}: {absent[0]} is not there; {self.build}"
        return None


def _natives(pattern: str) -> tuple[Mapping[str, tuple[str, ...]], tuple[str, ...]]:
    """Return programs that are executables of their own, and their paths."""
    paths = {role: pattern.format(role=role) for role in ROLES}
    return MappingProxyType({role: (path,) for role, path in paths.items()}), (*paths.values(),)


_CPP = _natives("clients/cpp/build/parley-{role}")
_RUST = _natives("clients/rust/target/release/parley-{role}")
_GO = _natives("clients/go/bin/parley-{role}")
_JAR = "clients/java/target/parley-client.jar"

LANGUAGES = (
    Language(
        "cpp",
        ("g++", "cmake"),
        "cmake -S clients/cpp -B clients/cpp/build -DCMAKE_BUILD_TYPE=Release"
        " && cmake --build clients/cpp/build",
        *_CPP,
    ),
    Language(
        "rust",
        ("cargo",),
        "cargo build --release --manifest-path clients/rust/Cargo.toml",
        *_RUST,
    ),
    Language("go", ("go",), "(cd clients/go && go build -o bin/ ./cmd/...)", *_GO),
    Language(
        "java",
        ("java", "mvn"),
        "mvn -q -f clients/java package",
        MappingProxyType(
            {role: ("java", "-cp", _JAR, f"parley.{role.capitalize()}") for role in ROLES}
        ),
        (_JAR,),
    ),
    Language(
        "javascript",
        ("node", "npm"),
        "(cd clients/javascript && npm install)",
        MappingProxyType(
            {role: ("node", f"clients/javascript/dispatchers/{role}.mjs") for role in ROLES}
        ),
        (
            *(f"clients/javascript/dispatchers/{role}.mjs" for role in ROLES),
            "clients/javascript/node_modules",
        ),
    ),
)

BY_NAME: Mapping[str, Language] = MappingProxyType({one.name: one for one in LANGUAGES})


def require(language: Language) -> None:
    """Skip a test whose language is not built here, saying how it is; in CI that is a failure."""
    missing = language.missing()
    if missing is None:
        return
    if os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
        pytest.fail(missing)
    pytest.skip(missing)


if __name__ == "__main__":
    for _language in LANGUAGES:
        for _role in ROLES:
            print(_language.name, _role, " ".join(_language.programs[_role]), sep="\t")
