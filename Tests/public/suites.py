"""The suites: their sources, requirements, builds, commands and known failures."""

import glob
import json
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import runners
from gateways import Gateways
from outcome import Outcome
from sources import Source

HERE = Path(__file__).resolve().parent


class Missing(Exception):
    """A required tool or package is missing."""


@dataclass(frozen=True)
class Suite:
    """One suite. `check` raises `Missing`; `run` adds each test's result to the outcome."""

    name: str
    repository: str
    tried: str
    what: str
    run: Callable[[Source, Path, Gateways, Outcome], None]
    tools: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    check: Callable[[], None] = lambda: None
    known: dict[str, str] = field(default_factory=dict)
    # The delay of all data, in seconds. Some suites were written for a distant server, and race with a near one.
    latency: float = 0


# Node

NODE_MODULES = ("/usr/share/nodejs", "/usr/lib/nodejs")
NODE_PACKAGES = ("mocha", "chai", "node-chai-as-promised", "node-sinon", "node-sinon-chai", "node-faye-websocket", "node-tslib", "node-lodash")
SDK_FILES = ("config/ci.config.json", "config/database.rules.json", *(f"packages/{name}" for name in (
    "app", "app-compat", "app-types", "app-check-interop-types", "auth-interop-types", "component", "database", "database-compat",
    "database-types", "logger", "util")), "packages/*/package.json")
SDK_MODULES = {"app": "app/src/index.ts", "app-compat": "app-compat/src/index.ts", "component": "component/index.ts",
               "database": "database/src/index.node.ts", "logger": "logger/index.ts", "util": "util/index.node.ts"}


def modules() -> list[str]:
    """Folders of Node's modules: those of NODE_PATH, then Debian's."""
    return [path for path in [*os.environ.get("NODE_PATH", "").split(":"), *NODE_MODULES] if path and os.path.isdir(path)]


def module(name: str) -> Path:
    for folder in modules():
        if (found := Path(folder, name)).exists():
            return found
    raise Missing(f"Node's module {name} (Debian: {', '.join(NODE_PACKAGES)}; or NODE_PATH)")


def esbuild() -> str:
    found = runners.tool("esbuild", *(f"{folder}/.bin/esbuild" for folder in modules()))
    if not found:
        raise Missing("esbuild (Debian: esbuild)")
    return found


def node_is_there(*names: str):
    def check():
        if not runners.tool("node"):
            raise Missing("node 20 or newer")
        esbuild()
        for name in ("mocha", "chai", "faye-websocket", "tslib", *names):
            module(name)
    return check


def sdk(source: Source, directory: Path) -> Path:
    """A copy of the JavaScript SDK's database and of its dependencies."""
    copy = source.copy(directory / "sdk", *SDK_FILES)
    (copy / "config/project.json").write_bytes((copy / "config/ci.config.json").read_bytes())
    return copy


def bundle(name: str, copy: Path, directory: Path, imports, aliases: dict[str, Path], *options: str) -> Path:
    """One program of modules that are loaded in this order."""
    entry, program = directory / f"{name}.entry.ts", directory / f"{name}.cjs"
    entry.write_text("".join(f"import {json.dumps(str(path))};\n" for path in imports))
    all_aliases = {f"@firebase/{key}": copy / "packages" / path for key, path in SDK_MODULES.items()} | {"idb": HERE / "node/idb.js"} | aliases
    runners.build([esbuild(), entry, "--bundle", "--platform=node", "--format=cjs", f"--outfile={program}", "--sourcemap=inline", "--log-level=error", *options,
                   *(f"--alias:{key}={path}" for key, path in all_aliases.items())], directory, {"NODE_PATH": ":".join(modules())}, directory / f"{name}.build.log")
    return program


def mocha(outcome: Outcome, program: Path, directory: Path, environment: dict, *options: str):
    runners.mocha(outcome, module("mocha") / "bin/mocha.js", program, directory, {"NODE_PATH": ":".join(modules()), **environment}, options)


def transport_file(transport: str, copy: Path, directory: Path) -> Path:
    """A module that makes the copy of the SDK use this transport."""
    file, folder = directory / "transport.ts", copy / "packages/database/src/realtime"
    file.write_text(
        f"import {{ use }} from {json.dumps(str(HERE / 'node/transports.ts'))};\n"
        f"import {{ BrowserPollConnection, FirebaseIFrameScriptHolder }} from {json.dumps(str(folder / 'BrowserPollConnection'))};\n"
        f"import {{ WebSocketConnection }} from {json.dumps(str(folder / 'WebSocketConnection'))};\n"
        f"use({json.dumps(transport)}, BrowserPollConnection, FirebaseIFrameScriptHolder, WebSocketConnection);\n")
    return file


def javascript(transport: str):
    def run(source: Source, directory: Path, gateways: Gateways, outcome: Outcome):
        copy = sdk(source, directory)
        first = transport_file(transport, copy, directory)
        port = gateways.start("test-emulator", json.loads((copy / "config/database.rules.json").read_text()))
        live = ("exp/integration", "connection")
        compat = ("database", "datasnapshot", "info", "order", "order_by", "promise", "query", "servervalues", "transaction")
        for package, start, names in (("database", "index.node", live), ("database-compat", "index.node", compat)):
            folder = copy / "packages" / package
            program = bundle(package, copy, directory, [
                first, folder / "src" / start, *(folder / f"test/{name}.test" for name in names)], {})
            mocha(outcome, program, directory, {"RTDB_EMULATOR_PORT": port, "RTDB_EMULATOR_NAMESPACE": "test-emulator"}, "--timeout", "5000", "--retries", "5")
    return run


def crawler(source: Source, directory: Path, gateways: Gateways, outcome: Outcome):
    copy = sdk(source, directory)
    port = gateways.start("test-emulator", json.loads((copy / "config/database.rules.json").read_text()))
    folder = copy / "packages/database-compat"
    program = bundle("crawler", copy, directory, [HERE / "node/xhr.ts", folder / "src/index.node", folder / "test/browser/crawler_support.test"], {})
    mocha(outcome, program, directory, {"RTDB_EMULATOR_PORT": port, "RTDB_EMULATOR_NAMESPACE": "test-emulator"}, "--timeout", "5000")


def geofire(source: Source, directory: Path, gateways: Gateways, outcome: Outcome):
    copy = source.copy(directory / "geofire", "packages/geofire/src", "packages/geofire/test", "packages/geofire-common/src")
    tools = Source(sdk_path("geofire-js"))
    js = sdk(tools, directory)
    port = gateways.start("fake-project-id", {"rules": {".read": True, ".write": True, "$any": {".indexOn": ["g"]}}})
    program = bundle("geofire", js, directory, [HERE / "node/window.ts", js / "packages/database/src/index.node", *(
        copy / f"packages/geofire/test/{name}.test" for name in ("GeoCallbackRegistration", "GeoFire", "GeoQuery"))], {
            "firebase/app": js / "packages/app/src/index.ts", "firebase/database": js / "packages/database/src/index.node.ts",
            "geofire-common": copy / "packages/geofire-common/src/index.ts"})
    mocha(outcome, program, directory, {"FIREBASE_DATABASE_EMULATOR_HOST": f"localhost:{port}"}, "--timeout", "10000")


def queue(source: Source, directory: Path, gateways: Gateways, outcome: Outcome):
    copy = source.copy(directory / "queue", "src", "test")
    # The suite reads a service account here; the shim of firebase-admin does not use it.
    (copy / "test/key.json").write_text("{}\n")
    js = sdk(Source(sdk_path("firebase-queue")), directory)
    port = gateways.start("queue")
    program = bundle("queue", js, directory, [copy / "test/queue.spec.js", copy / "test/lib/queue_worker.spec.js"], {
        "firebase-admin": HERE / "node/firebase-admin.ts", "rsvp": HERE / "node/rsvp.js",
        "@firebase/database-compat": js / "packages/database-compat/src/index.node.ts"})
    mocha(outcome, program, directory, {"FB_QUEUE_TEST_DB_URL": f"http://localhost:{port}?ns=queue"}, "--timeout", "10000")


# Releases from before the SDK was made modular, which many pages still load.
OLD_FILES = ("config", "packages/app", "packages/app-types", "packages/database", "packages/database-types", "packages/logger", "packages/util",
             "package.json", "packages/*/package.json")
OLD_MODULES = {"app": "packages/app/index.node.ts", "component": "packages/component/index.ts", "database": "packages/database/index.node.ts",
               "logger": "packages/logger/index.ts", "util": "packages/util/index.node.ts", "app-exp": "packages-exp/app-exp/src/index.ts"}
OLD_TESTS = ("connection", "database", "datasnapshot", "info", "order", "order_by", "promise", "query", "servervalues", "transaction")
OLD_MORE = {"8.10.1": ("packages/component", "packages-exp/app-exp", "packages-exp/*/package.json")}


def old_javascript(version: str, transport: str):
    def run(source: Source, directory: Path, gateways: Gateways, outcome: Outcome):
        copy = source.copy(directory / "sdk", *OLD_FILES, *OLD_MORE.get(version, ()))
        (copy / "config/project.json").write_bytes((copy / "config/ci.config.json").read_bytes())
        settings, database = copy / "config/tsconfig.base.json", copy / "packages/database"
        # esbuild does not compile for browsers that old, and takes no module with one export for a function.
        settings.write_text(settings.read_text().replace('"es5"', '"es2020"'))
        for file in (database / "test").rglob("*.ts"):
            file.write_text(file.read_text().replace("import * as chaiAsPromised", "import chaiAsPromised"))
        (database / "index.ts").write_text("export * from './index.node';\n")
        tests = [path for name in OLD_TESTS if (path := database / f"test/{name}.test.ts").exists()]
        if not tests:
            raise RuntimeError("the source has no tests of the database")
        port = gateways.start("test-emulator", json.loads((copy / "config/database.rules.json").read_text()))
        # The transport comes second: these releases patch long polling for Node themselves. Their own build was in strict mode.
        program = bundle("tests", copy, directory, [database / "index.node", transport_file(transport, copy, directory), *tests],
                         {f"@firebase/{name}": copy / path for name, path in OLD_MODULES.items() if (copy / path).exists()} | {
                             name: HERE / "node/unused.js" for name in ("request", "dom-storage", "xmlhttprequest")}, "--banner:js='use strict';")
        mocha(outcome, program, directory, {"RTDB_EMULATOR_PORT": port, "RTDB_EMULATOR_NAMESPACE": "test-emulator"}, "--timeout", "5000", "--retries", "5")
    return run


# The suites that use the JavaScript SDK take it from the same --source.
SDK = "firebase/firebase-js-sdk"
# The names of a repository's version tags.
TAGS = {SDK: "firebase@{}"}
_given: dict[str, Path] = {}


def sdk_path(suite: str) -> Path:
    if SDK not in _given:
        raise Missing(f"--source {SDK}=PATH, whose database {suite} runs on")
    return _given[SDK]


def remember(repository: str, path: Path):
    """Lets suites find another source than their own."""
    _given[repository] = path


# Python

def python_admin(source: Source, directory: Path, gateways: Gateways, outcome: Outcome):
    copy = source.copy(directory / "source", "firebase_admin", "integration/__init__.py", "integration/conftest.py", "integration/test_db.py", "tests/__init__.py",
                       "tests/testutils.py", "tests/data")
    port = gateways.start("fake-project-id")
    runners.pytest(outcome, sys.executable, ["integration/test_db.py"], copy, {
        "FIREBASE_DATABASE_EMULATOR_HOST": f"localhost:{port}", "PYTHONPATH": copy, "PYTHONDONTWRITEBYTECODE": 1})


def python_is_there():
    try:
        import firebase_admin  # noqa: F401
    except ImportError:
        raise Missing("the Python packages of firebase-admin (Tests/e2e/requirements.txt)") from None


# Go

DEBIAN_GO = "/usr/share/gocode"


def go_program() -> str:
    found = runners.tool("go", "/usr/lib/go/bin/go", "/usr/local/go/bin/go")
    if not found:
        raise Missing("go 1.19 or newer (Debian: golang-go)")
    return found


def go_is_there():
    go_program()
    if not os.path.isdir(f"{os.environ.get('GOCODE', DEBIAN_GO)}/src/google.golang.org/api"):
        raise Missing("Go's packages google.golang.org/api and golang.org/x/oauth2 as source (Debian: golang-google-api-dev; or GOCODE=PATH with src/)")


def go_admin(source: Source, directory: Path, gateways: Gateways, outcome: Outcome):
    module_path = directory / "gopath/src/firebase.google.com/go/v4"
    source.copy(module_path, "db", "errorutils", "internal", "integration/db", "integration/internal", "testdata")
    (module_path / "firebase.go").write_bytes((HERE / "go/firebase.go").read_bytes())
    account = gateways.account(module_path / "testdata/service_account.json")
    (module_path / "testdata/integration_cert.json").write_text(json.dumps(account))
    port = gateways.start("fake-project-id")
    runners.go_test(outcome, go_program(), "firebase.google.com/go/v4/integration/db", module_path, {
        "GOPATH": f"{directory / 'gopath'}:{os.environ.get('GOCODE', DEBIAN_GO)}", "GO111MODULE": "off", "GOFLAGS": "", "GOCACHE": directory / "gocache",
        "FIREBASE_DATABASE_EMULATOR_HOST": f"localhost:{port}", "FIREBASE_DATABASE_EMULATOR_NAMESPACE": "fake-project-id"})


# Java

JARS = ("junit4", "hamcrest", "mockito-core", "byte-buddy", "byte-buddy-agent", "objenesis", "guava", "failureaccess", "slf4j-api", "slf4j-nop", "gson", "netty-all", "netty-*",
        "google-api-client", "google-auth-library-credentials", "google-auth-library-oauth2-http", "google-http-client", "google-http-client-gson",
        "google-http-client-jackson2", "google-oauth-client", "jackson-core", "opencensus-*", "grpc-context", "httpclient", "httpcore", "commons-codec", "commons-logging")
NEEDED_JARS = ("junit4", "mockito-core", "guava", "slf4j-api", "gson", "google-api-client", "google-auth-library-oauth2-http", "google-http-client-jackson2")
JAVA_PACKAGES = ("junit4", "libmockito-java", "libguava-java", "libslf4j-java", "libgoogle-gson-java", "libnetty-java", "libgoogle-api-client-java",
                 "libgoogle-auth-java", "libgoogle-http-client-java")


def jars() -> list[str]:
    """The jars of JAVA_LIBRARIES, or Debian's."""
    folders = [path for path in os.environ.get("JAVA_LIBRARIES", "/usr/share/java").split(":") if path]
    found = []
    for folder in folders:
        for name in JARS:
            found += [path for path in sorted(glob.glob(f"{folder}/{name}.jar")) if "*" in name or os.path.basename(path) == f"{name}.jar"]
    return list(dict.fromkeys(found))


def java_is_there():
    for name in ("java", "javac"):
        if not runners.tool(name):
            raise Missing(f"{name} 11 or newer (Debian: default-jdk-headless)")
    names = {os.path.basename(path) for path in jars()}
    if lacking := [name for name in NEEDED_JARS if f"{name}.jar" not in names]:
        raise Missing(f"{', '.join(f'{name}.jar' for name in lacking)} (Debian: {', '.join(JAVA_PACKAGES)}; or JAVA_LIBRARIES=PATH)")


def java_admin(source: Source, directory: Path, gateways: Gateways, outcome: Outcome):
    copy = source.copy(directory / "source", "src/main/java/com/google/firebase", "src/main/resources", "src/test/java/com/google/firebase", "src/test/resources")
    tests = sorted(str(path.relative_to(copy / "src/test/java")) for path in (copy / "src/test/java/com/google/firebase/database").rglob("*TestIT.java"))
    if not tests:
        raise RuntimeError("the source has no integration tests of the database")
    resources = copy / "src/main/resources"
    for file in resources.rglob("*.properties"):
        file.write_text(re.sub(r"\$\{[^}]*\}", "0.0.0", file.read_text()))
    classes = directory / "classes"
    classes.mkdir(exist_ok=True)
    path = ":".join(jars())
    # Compiles only the parts that the tests use: the stand-ins come first, and Firestore, messaging and others are not reached.
    runners.build(["javac", "-nowarn", "-proc:none", "-implicit:class", "-encoding", "UTF-8", "-cp", path, "-d", classes, "-sourcepath",
                   f"{HERE / 'java'}:{copy / 'src/main/java'}:{copy / 'src/test/java'}", HERE / "java/RunAll.java",
                   *(copy / "src/test/java" / name for name in tests)], directory, {}, directory / "javac.log")
    account = gateways.account(copy / "src/test/resources/service_accounts/editor.json")
    (directory / "integration_cert.json").write_text(json.dumps(account))
    port = gateways.start("fake-project-id")
    names = [name.removesuffix(".java").replace("/", ".") for name in tests]
    runners.junit4(outcome, "java", ["-cp", f"{classes}:{resources}:{copy / 'src/test/resources'}:{path}", "RunAll", *names], directory,
                   {"FIREBASE_DATABASE_EMULATOR_HOST": f"localhost:{port}"})


PRODUCTION = "it compares a URL with that of the production host, and the emulator's host is another"
JAVA_KNOWN = {
    **{name: PRODUCTION for name in (
        "DataTestIT.testUrlEncodingAndDecoding", "DataTestIT.testRootForRootAndNonRootLocations", "FirebaseDatabaseTestIT.testGetReferenceFromURLWithPath",
        "FirebaseDatabaseTestIT.testGetReference", "FirebaseDatabaseTestIT.testGetDefaultInstance", "FirebaseDatabaseTestIT.testGetInstanceForApp",
        "FirebaseDatabaseTestIT.testGetReferenceFromURLWithoutPath", "InfoTestIT.testGetReferenceToInfoNodes")},
    "FirebaseDatabaseTestIT.testGetReferenceThrowsWithBadUrl": "with an emulator the SDK takes another host's URL",
    "FirebaseDatabaseAuthTestIT.testAuthWithInvalidCertificateCredential": "with an emulator the SDK sends `owner` in place of the invalid credential",
}

NODE_TOOLS = ("node 20", "esbuild")
TRANSPORTS = (("websocket", "over WebSockets"), ("polling", "over long polling alone"), ("upgrade", "over long polling that is upgraded to a WebSocket"))

SUITES = [
    *(Suite(f"firebase-js-sdk-{name}", SDK, "6f865964 (2026-08-20)", f"The database's live tests of the JavaScript SDK, {how}.", javascript(name),
            NODE_TOOLS, NODE_PACKAGES, node_is_there("chai-as-promised", "sinon", "sinon-chai", "lodash")) for name, how in TRANSPORTS),
    Suite("firebase-js-sdk-rest", SDK, "6f865964 (2026-08-20)", "The tests of the JavaScript SDK's read-only REST client, which pages have for crawlers.", crawler,
          NODE_TOOLS, NODE_PACKAGES, node_is_there()),
    *(Suite(f"firebase-js-sdk-{version.partition('.')[0]}-{name}", f"{SDK}@{version}", f"its tag firebase@{version}",
            f"The database's live tests of the JavaScript SDK {version}, {how}.", old_javascript(version, name),
            NODE_TOOLS, NODE_PACKAGES, node_is_there("chai-as-promised", "sinon", "sinon-chai", "lodash"))
      for version in ("8.10.1", "5.11.1") for name, how in TRANSPORTS),
    Suite("firebase-admin-python", "firebase/firebase-admin-python", "b40e7388 (2026-07-09)", "integration/test_db.py of the Admin SDK for Python.",
          python_admin, ("python 3.11",), ("those of Tests/e2e/requirements.txt, which the script installs",), python_is_there),
    Suite("firebase-admin-go", "firebase/firebase-admin-go", "eebb06f2 (2026-07-08)", "integration/db of the Admin SDK for Go.",
          go_admin, ("go 1.19",), ("golang-google-api-dev",), go_is_there),
    Suite("firebase-admin-java", "firebase/firebase-admin-java", "074d5c56 (9.10.0)", "The database's integration tests of the Admin SDK for Java, 15 ms from the gateway.",
          java_admin, ("a JDK 11",), JAVA_PACKAGES, java_is_there, JAVA_KNOWN, latency=0.015),
    Suite("geofire-js", "firebase/geofire-js", "9c2d7af1 (2025-02-18)", "The tests of geofire 6 on the JavaScript SDK's source.",
          geofire, (*NODE_TOOLS, f"--source {SDK}"), NODE_PACKAGES, node_is_there()),
    Suite("firebase-queue", "FirebaseExtended/firebase-queue", "bd639b68 (1.6.1)", "The tests of firebase-queue on the JavaScript SDK's source.",
          queue, (*NODE_TOOLS, f"--source {SDK}"), (*NODE_PACKAGES, "node-winston", "node-uuid"), node_is_there("chai-as-promised", "sinon", "sinon-chai", "lodash", "winston", "uuid")),
]
