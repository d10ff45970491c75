"""Kafka 3.9.1's jars, and the JVM that runs them; also those of 4.3.1, whose broker some tests start.

The jars come from Maven Central through the Ivy that pyspark ships, once per user, into ``spark-commitlog/kafka-3.9.1``
under ``$XDG_CACHE_HOME`` or ``~/.cache``. Why so: docs/decisions/real_kafka_in_tests.md.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

KAFKA_VERSION = "3.9.1"
KAFKA_4 = "4.3.1"
JAVA_SOURCES = Path(__file__).parent / "java"

# One-shot programs are over before the second compiler pays, and jars that come from Maven need no proof of their
# bytecode: Spark starts and ends with less than half the processor time.
QUICK_START = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
QUICK = (
    "-Xmx512m",  # several at once are harmless
    *QUICK_START,
    "-Xshare:auto",
    "-Dfile.encoding=UTF-8",
    "-Dcommitlog.level=WARN",
)

# The tools' own dependency on Connect (Jersey, Jetty) doubles the download and serves nothing here.
_IVY_MODULE = """\
<ivy-module version="2.0">
  <info organisation="spark-commitlog" module="kafka-for-tests"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{release}" conf="default->default"/>
    <dependency org="org.apache.kafka" name="kafka-tools" rev="{release}" conf="default->default">
      <exclude org="org.apache.kafka" module="connect-runtime"/>
    </dependency>
    <dependency {logging} conf="default->default"/>
  </dependencies>
</ivy-module>
"""

_LOGGING = {
    KAFKA_VERSION: 'org="org.slf4j" name="slf4j-reload4j" rev="1.7.36"',
    KAFKA_4: 'org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.25.4"',
}

_IVY_OF_JARS = """\
<ivy-module version="2.0">
  <info organisation="spark-commitlog" module="{name}-for-tests"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    {dependencies}
  </dependencies>
</ivy-module>
"""

# Without the two properties Ivy asks the server for sources and documentation of every module.
_IVY_SETTINGS = """\
<ivysettings>
  <property name="ivy.maven.lookup.sources" value="false"/>
  <property name="ivy.maven.lookup.javadoc" value="false"/>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <timeout-constraints>
    <timeout-constraint name="patient" connectionTimeout="20000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="central" m2compatible="true" root="https://repo1.maven.org/maven2" timeoutConstraint="patient"/>
  </resolvers>
</ivysettings>
"""

# PR_SET_PDEATHSIG outlives exec, so the JVM dies with us however we die; the check closes the gap before prctl.
_DIE_WITH_PARENT = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class JavaMissingError(RuntimeError):
    """There is no Java here that can run Kafka 3.9.1; the message says what to install."""


class JavaError(RuntimeError):
    """A Java program failed. The message ends with its standard error; ``stdout`` is what it had printed before."""

    def __init__(self, program: str, what: str, stdout: str, stderr: str) -> None:
        super().__init__(f"{program}: {what}\n{(stderr.strip() or stdout.strip())[-8000:]}")
        self.stdout = stdout
        self.stderr = stderr


@functools.cache
def java() -> Path:
    """The ``java`` of ``JAVA_HOME``, else of ``PATH``.

    Raises:
        JavaMissingError: none there, older than 17, or without the compiler (a JRE).
    """
    found, home = any_java(), os.environ.get("JAVA_HOME")
    where = f"JAVA_HOME={home}" if home else "PATH"
    need = "real Kafka in tests needs a JDK of version 17 or newer"
    if found is None:
        raise JavaMissingError(f"no java in {where}: {need}")
    listing = subprocess.run([found, "--list-modules"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"^java\.base@(\d+)", listing, re.MULTILINE)
    if version is None or int(version[1]) < 17:
        raise JavaMissingError(f"{found} ({where}) is version {version[1] if version else 'before 9'}: {need}")
    if not re.search(r"^jdk\.compiler@", listing, re.MULTILINE):
        raise JavaMissingError(f"{found} ({where}) is a JRE, its module jdk.compiler is missing: {need}")
    return found


def any_java() -> Path | None:
    """The same, whatever it is."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    return None if found is None else Path(found)


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "spark-commitlog" / f"kafka-{KAFKA_VERSION}"


def cache_place(name: str, recipe: str) -> Path:
    """Where :func:`cached` has it, whether it is there or not."""
    return cache_directory() / f"{name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def cached(name: str, recipe: str, fill: Callable[[Path], None]) -> Path:
    """The directory ``name-<hash of recipe>`` of the cache, filled by ``fill`` unless it is there already, whole.

    One process fills while others wait. A directory gets its name only when it is filled and a list of its files and
    their sizes is written, so a directory left by a killed process is never taken for complete. A directory that lost
    bytes is filled again.
    """
    root, target = cache_directory(), cache_place(name, recipe)
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / f"{name}.lock"):
        if not _is_whole(target):
            for leftover in root.glob(f"{name}.partial-*"):
                shutil.rmtree(leftover)
            partial = Path(tempfile.mkdtemp(prefix=f"{name}.partial-", dir=root))
            fill(partial)
            (partial / "files.json").write_text(json.dumps(_sizes(partial)))
            shutil.rmtree(target, ignore_errors=True)
            partial.rename(target)
    return target


def _sizes(directory: Path) -> dict[str, int]:
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != "files.json")
    return {str(path.relative_to(directory)): path.stat().st_size for path in files}


def _is_whole(directory: Path) -> bool:
    try:
        expected = json.loads((directory / "files.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return False
    return bool(expected == _sizes(directory))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def jars(release: str = KAFKA_VERSION) -> list[Path]:
    """The jars of a release of Kafka and what they need, sorted; resolved on first use.

    Raises:
        JavaError: Ivy could not resolve or download them.
        JavaMissingError: see :func:`java`.
    """
    name = "jars" if release == KAFKA_VERSION else f"jars-{release}"
    return resolved(name, _IVY_MODULE.format(release=release, logging=_LOGGING[release]))


def resolved(name: str, ivy_module: str) -> list[Path]:
    """The jars that ``ivy_module`` asks for, sorted, in the directory ``name`` of the cache.

    Raises:
        JavaError: Ivy could not resolve or download them.
        JavaMissingError: see :func:`java`.
    """
    return sorted(cached(name, ivy_module, functools.partial(_resolve, name, ivy_module)).glob("*.jar"))


def resolved_alone(name: str, *coordinates: str) -> list[Path]:
    """The jars ``organisation:name:version``, without what they depend on. Raises as :func:`resolved`."""
    lines = (
        '<dependency org="{}" name="{}" rev="{}" conf="default->master"/>'.format(*each.split(":"))
        for each in coordinates
    )
    return resolved(name, _IVY_OF_JARS.format(name=name, dependencies="\n    ".join(lines)))


def if_fetched(jars: Callable[[], str]) -> str:
    """What ``jars`` returns, or "" with a warning where they are not in the cache and Maven Central gives none."""
    try:
        return jars()
    except JavaError as error:
        warnings.warn(f"the tests that need these jars will fail: {error}", stacklevel=2)
        return ""


def _resolve(name: str, ivy_module: str, target: Path) -> None:
    # Ivy's own cache stays after a failure, so the next try goes on where this one ended.
    ivy_cache = cache_directory() / f"ivy-{name}"
    with tempfile.TemporaryDirectory() as temporary:
        module, settings = Path(temporary, "ivy.xml"), Path(temporary, "ivysettings.xml")
        module.write_text(ivy_module)
        settings.write_text(_IVY_SETTINGS.format(cache=ivy_cache))
        ivy = next(Path(pyspark.__path__[0], "jars").glob("ivy-*.jar"))
        options = [*QUICK, f"-Divy.default.ivy.user.dir={ivy_cache}", "-cp", str(ivy), "org.apache.ivy.Main"]
        options += ["-warn", "-settings", str(settings), "-ivy", str(module), "-types", "jar", "bundle"]
        options += ["-retrieve", f"{target}/[artifact]-[revision].[ext]"]
        _run("Ivy", [str(java()), *options], timeout_s=900)
    shutil.rmtree(ivy_cache)


@functools.cache
def classpath() -> str:
    """Kafka's jars, our small programs of ``java/``, compiled, and the log4j configuration beside them."""
    libraries = os.pathsep.join(map(str, jars()))
    sources = sorted(JAVA_SOURCES.glob("*.java"))

    def compile_sources(target: Path) -> None:
        # javac by its module: a JDK's bin need not be in PATH.
        options = [
            "-m",
            "jdk.compiler/com.sun.tools.javac.Main",
            "-cp",
            libraries,
            "-d",
            str(target),
            "-Xlint:all",
            "-Werror",
        ]
        _run("javac", [str(java()), *QUICK, *options, *map(str, sources)], timeout_s=120)

    recipe = libraries + "".join(source.read_text() for source in sources)
    classes = cached("classes", recipe, compile_sources)
    return os.pathsep.join([str(JAVA_SOURCES), str(classes), libraries])


def dying_with_us(command: Sequence[str]) -> list[str]:
    """``command``, made so that Linux kills it when the calling thread or process ends, for whatever reason."""
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]


def jvm(*options: str) -> list[str]:
    """The start of a command line: the JVM with Kafka on its class path; the main class comes next."""
    return dying_with_us([str(java()), *QUICK, *options, "-cp", classpath()])


def broker_jvm(*options: str, release: str = KAFKA_VERSION, more: Sequence[Path] = ()) -> list[str]:
    """As :func:`jvm`, without our programs: only a class path of jars alone can have its classes archived.

    ``more``: jars behind the others.
    """
    log4j = (
        f"-Dlog4j.configuration={(JAVA_SOURCES / 'log4j.properties').as_uri()}"
        if release == KAFKA_VERSION
        else f"-Dlog4j2.configurationFile={(JAVA_SOURCES / 'log4j2.properties').as_uri()}"
    )
    return dying_with_us(
        [str(java()), *QUICK, log4j, *options, "-cp", os.pathsep.join(map(str, [*jars(release), *more]))]
    )


def java_version() -> str:
    """What ``java -version`` prints."""
    return subprocess.run([java(), "-version"], capture_output=True, text=True, check=True).stderr


def run_main(main: str, arguments: Sequence[str], *, timeout_s: float = 120, release: str = KAFKA_VERSION) -> str:
    """Run a main class of a release to its end; returns what it printed.

    Raises:
        JavaError: the exit status is not 0, or ``timeout_s`` is over.
    """
    command = jvm() if release == KAFKA_VERSION else broker_jvm(release=release)
    return _run(main, [*command, main, *arguments], timeout_s=timeout_s)


def _run(program: str, command: Sequence[str], *, timeout_s: float) -> str:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise JavaError(program, f"not done after {timeout_s} s", *process.communicate()) from None
    if process.returncode != 0:
        raise JavaError(program, f"exit status {process.returncode}", stdout, stderr)
    return stdout
