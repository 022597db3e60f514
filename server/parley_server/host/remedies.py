"""Why a command could not do its work, as far as the files say, and what to do about it.

A dispatcher may be in any language; what most often stops one is that it was not built, or that
something it runs on is not installed. What is known here are the files that build tools go by, and
where Debian keeps a few things: enough to save a look at a page.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_BUILDS: Mapping[str, str] = MappingProxyType(
    {
        "CMakeLists.txt": "cmake -S {0} -B {0}/build && cmake --build {0}/build",
        "Cargo.toml": "cargo build --release --manifest-path {0}/Cargo.toml",
        "go.mod": "(cd {0} && go build -o bin/ ./...)",
        "pom.xml": "mvn -q -f {0} package",
        "package.json": "npm install --prefix {0}",
        "Makefile": "make -C {0}",
    }
)
"""By the file that a build tool goes by: the command that builds what lies in its folder."""

_PACKAGES: Mapping[str, str] = MappingProxyType(
    {
        "java": "default-jre-headless",
        "node": "nodejs",
        "libzmq": "libzmq5",
        "libsodium": "libsodium23",
        "libstdc++": "libstdc++6",
    }
)
"""Debian's packages of what programs run on; libraries without what follows their name."""

_SHARED_LIBRARY_MISSING = 127
"""Exit status of a program whose shared libraries are not all there; shells use it as well."""

_PATIENCE = 5.0
"""Seconds to look for shared libraries."""


def for_absent(program: str) -> str:
    """Return what to do about a program that is not there, to stand behind saying so; or nothing.

    Args:
        program: A path, or a name that was looked for on the PATH.
    """
    if "/" in program:
        return _to_build(Path(program))
    return _to_install(program)


def for_failure(command: Sequence[str], status: int) -> str:
    """Return why a command may have failed, to stand behind saying so; or nothing.

    Args:
        command: Program and arguments, as they were started.
        status: Its exit status.
    """
    if status == _SHARED_LIBRARY_MISSING:
        return _for_libraries(command[0])
    for path in _files_of(command):
        if not path.exists():
            return f": {path} is not there{_to_build(path)}"
        folder = _packages_missing(path)
        if folder is not None:
            return f": {folder / 'node_modules'} is not there{_to_build(path)}"
    return ""


def _to_build(path: Path) -> str:
    """Return how what is missing at a path is built, if a build file stands above it."""
    for folder in path.parents:
        for name, build in _BUILDS.items():
            if (folder / name).is_file():
                page = folder / "README.md"
                more = f", as {page} has it" if page.is_file() else ""
                return f"; build it: {build.format(folder)}{more}"
    return ""


def _to_install(name: str) -> str:
    package = _PACKAGES.get(name)
    return "" if package is None else f"; on Debian: apt install {package}"


def _files_of(command: Sequence[str]) -> Iterator[Path]:
    """Yield files that an interpreter was to run: class paths, archives, the script."""
    words = iter(command[1:])
    for word in words:
        if word in {"-cp", "-classpath", "--class-path", "-jar"}:
            yield from (Path(part) for part in next(words, "").split(":") if part)
            return
        if not word.startswith("-"):
            # What an interpreter's first argument looks like; a program's own may be anything.
            if Path(word).suffix and "/" not in command[0]:
                yield Path(word)
            return


def _packages_missing(script: Path) -> Path | None:
    """Return the folder whose packages a script may want and nobody has installed."""
    for folder in script.parents:
        if (folder / "node_modules").is_dir():
            return None
        if (folder / "package.json").is_file():
            return folder
    return None


def _for_libraries(program: str) -> str:
    """Return which shared libraries a program lacks, by what the loader says."""
    found, ldd = shutil.which(program), shutil.which("ldd")
    if found is None or ldd is None:
        return ""
    try:
        told = subprocess.run(  # noqa: S603 - the user wished to run this very program
            [ldd, found], capture_output=True, text=True, timeout=_PATIENCE, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    missing = [line.split()[0] for line in told.splitlines() if line.endswith("=> not found")]
    if not missing:
        return ""
    return f": {', '.join(missing)} not found{_to_install(missing[0].split('.so')[0])}"
