// swift-tools-version: 6.2
import PackageDescription

/// Checks that Swift 6 mode still leaves off, and warnings as errors.
let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),  // SE-0335
    .enableUpcomingFeature("InternalImportsByDefault"),  // SE-0409
    .enableUpcomingFeature("MemberImportVisibility"),  // SE-0444
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),  // SE-0461
    .enableUpcomingFeature("InferIsolatedConformances"),  // SE-0470
    .enableUpcomingFeature("ImmutableWeakCaptures"),  // SE-0481
    .treatAllWarnings(as: .error),
]

func target(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: dependencies, swiftSettings: settings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, swiftSettings: settings)
}

/// The commit that is built, in hexadecimal digits: `make` and `scripts/debug-build` ask git and pass it on.
let commit = (Context.environment["PATHMIRROR_COMMIT"] ?? "").filter(\.isHexDigit)

let package = Package(
    name: "pathmirror",
    products: [
        .library(name: "PathmirrorClient", targets: ["PathmirrorClient"]),
        .executable(name: "pathmirror", targets: ["pathmirror"]),
        .executable(name: "pathmirror-fuzz", targets: ["pathmirror-fuzz"]),
    ],
    targets: [
        // C libraries: module maps and shims only. For those of the gateway pkg-config isn't asked: SwiftPM would warn
        // whoever builds an app where they are not installed.
        .systemLibrary(name: "CCrypto"),
        .systemLibrary(name: "CZlib", providers: [.apt(["zlib1g-dev"])]),
        // RE2 speaks C++ only.
        .target(name: "CRE2", linkerSettings: [.linkedLibrary("re2")]),
        .systemLibrary(name: "COpenSSL", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CEpoll"),
        // The commit that is built. One file in C, so that another commit compiles nothing else again.
        .target(name: "CBuild", cSettings: commit.isEmpty ? [] : [.define("PATHMIRROR_COMMIT", to: commit)]),
        .systemLibrary(name: "CEvent", providers: [.apt(["libevent-dev"])]),
        .systemLibrary(name: "CWSLay", providers: [.apt(["libwslay-dev"])]),
        .systemLibrary(name: "CCurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(name: "CHTTPParser", providers: [.apt(["libhttp-parser-dev"])]),
        .systemLibrary(name: "CPostgres", providers: [.apt(["libpq-dev"])]),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(name: "CNATS", providers: [.apt(["libnats-dev"])]),
        .systemLibrary(name: "CKafka", providers: [.apt(["librdkafka-dev"])]),

        // Pure rooms: no I/O.
        target("JSONText"),
        target("Crypto", ["CCrypto"]),
        target("Compression", ["CZlib"]),
        target("Tree", ["Crypto", "JSONText"]),
        target("Tokens", ["Tree", "Crypto", "JSONText"]),
        target("Rules", ["Tree", "JSONText", "CRE2"]),
        target("Wire", ["Tree", "Crypto"]),

        target("ClientCore", ["Tree", "Wire"]),

        // One wrapper per C library that does I/O, over Runtime.
        target("Runtime", ["CEpoll"]),
        target("SQLite", ["CSQLite"]),
        target("Postgres", ["CPostgres", "Runtime"]),
        target("PostgresCluster", ["Postgres", "Runtime"]),
        // Both sides of TLS: the server's and the client's.
        target("TLS", ["COpenSSL"]),
        target("HTTPServer", ["CEvent", "CHTTPParser", "CWSLay", "TLS", "Runtime"]),
        target("HTTPClient", ["CCurl", "TLS", "Runtime"]),
        target("NATSClient", ["CNATS", "JSONText", "Runtime"]),
        target("KafkaClient", ["CKafka", "Runtime"]),

        // Realtime connections of apps, over sockets.
        target("WebSocketClient", ["ClientCore", "Crypto", "TLS", "Runtime"]),

        // The library for Swift apps: no server in it.
        target("PathmirrorClient", ["ClientCore", "WebSocketClient", "SQLite", "TLS", "Wire", "Tree", "Runtime"]),

        // All SQL of schema pathmirror.
        .target(
            name: "LogStore", dependencies: ["Postgres", "Tokens", "Tree", "Crypto", "Runtime"],
            resources: [
                .embedInCode("Migrations/baseline.sql"),
                .embedInCode("Migrations/001_log_and_tree.sql"), .embedInCode("Migrations/002_mirrors.sql"),
                .embedInCode("Migrations/003_replays_and_sql.sql"),
                .embedInCode("Migrations/004_mirror_errors.sql"),
                .embedInCode("Migrations/005_faster_sql_writes.sql"),
                .embedInCode("Migrations/006_stream_keys.sql"),
                .embedInCode("Migrations/007_gateway_role.sql"),
                .embedInCode("Migrations/008_log_changes.sql"),
                .embedInCode("Migrations/009_session_fences.sql"),
                .embedInCode("Migrations/010_histories.sql"),
                .embedInCode("Migrations/011_shared_log.sql"),
                .embedInCode("Migrations/012_head_row.sql"),
                .embedInCode("Migrations/013_function_files.sql"),
                .embedInCode("Migrations/014_feeds.sql"),
                .embedInCode("Migrations/015_feed_owners.sql"),
                .embedInCode("Migrations/016_retention.sql"),
                .embedInCode("Migrations/017_write_names.sql"),
                .embedInCode("Migrations/018_placement.sql"),
                .embedInCode("Migrations/019_moves.sql"),
                .embedInCode("Migrations/020_mirror_misfits.sql"),
                .embedInCode("Migrations/021_mirror_history.sql"),
                .embedInCode("Migrations/022_sql_write_loops.sql"),
                .embedInCode("Migrations/023_following.sql"),
                .embedInCode("Migrations/024_mirror_waiting.sql"),
                .embedInCode("Migrations/025_retention_look.sql"),
                .embedInCode("Migrations/026_gateway_identity.sql"),
                .embedInCode("Migrations/027_small_feed_errors.sql"),
                .embedInCode("Migrations/028_plain_mirrors.sql"), .embedInCode("Migrations/029_follow.sql"),
                .embedInCode("Migrations/030_service_accounts.sql"),
                .embedInCode("Migrations/functions/paths.sql"), .embedInCode("Migrations/functions/values.sql"),
                .embedInCode("Migrations/functions/head.sql"), .embedInCode("Migrations/functions/partitions.sql"),
                .embedInCode("Migrations/functions/tree.sql"), .embedInCode("Migrations/functions/changes.sql"),
                .embedInCode("Migrations/functions/entries.sql"), .embedInCode("Migrations/functions/sessions.sql"),
                .embedInCode("Migrations/functions/reading.sql"), .embedInCode("Migrations/functions/writing.sql"),
                .embedInCode("Migrations/functions/wait_for.sql"), .embedInCode("Migrations/functions/log_entry.sql"),
                .embedInCode("Migrations/functions/log_change.sql"),
                .embedInCode("Migrations/functions/log_cursor.sql"),
                .embedInCode("Migrations/functions/mirror_status.sql"),
                .embedInCode("Migrations/functions/mirror_misfit.sql"),
                .embedInCode("Migrations/functions/feeds.sql"),
                .embedInCode("Migrations/functions/feed_status.sql"),
                .embedInCode("Migrations/functions/retention.sql"),
                .embedInCode("Migrations/functions/named_writes.sql"),
                .embedInCode("Migrations/functions/placement.sql"),
                .embedInCode("Migrations/functions/following.sql"),
                .embedInCode("Migrations/functions/follow.sql"),
                .embedInCode("Migrations/functions/seq_at.sql"),
                .embedInCode("Migrations/functions/privileges.sql"),
            ], swiftSettings: settings),

        // Projections of the tree into SQL tables.
        target("Mirrors", ["LogStore", "Postgres", "Rules", "Tree", "JSONText", "Crypto", "Runtime"]),

        // Shortens logs by itself, as far as administrators have said.
        target("Retention", ["LogStore", "Postgres", "Runtime"]),

        // Committer, snapshots, listener index.
        target("Engine", ["LogStore", "Postgres", "Rules", "Tree", "Runtime"]),

        // Keeps namespaces equal to upstream databases.
        target(
            "Follower",
            [
                "LogStore", "ClientCore", "HTTPClient", "Tokens", "Wire", "Tree", "Crypto", "Postgres", "Runtime",
            ]),

        // Durable consumers of the log: what is pulled, streamed, and sent to webhooks and other engines.
        target(
            "Feeds",
            [
                "LogStore", "Postgres", "HTTPClient", "NATSClient", "KafkaClient", "Rules", "Crypto", "JSONText",
                "Tree",
                "Runtime",
            ]),

        // The databases of a gateway: which there are, and which of them has which namespace.
        target("Placement", ["Engine", "Feeds", "LogStore"]),

        // The doors: REST and its streams, operations.
        .target(
            name: "Gateway",
            dependencies: [
                "Placement", "Engine", "Feeds", "LogStore", "HTTPServer", "HTTPClient", "Rules", "Wire", "Tokens",
                "Tree",
                "Crypto", "Compression", "JSONText", "Runtime",
            ], resources: [.embedInCode("Description/openapi.json")], swiftSettings: settings),

        .executableTarget(
            name: "pathmirror",
            dependencies: [
                "Gateway", "Placement", "Engine", "Mirrors", "Feeds", "Follower", "Retention", "LogStore", "HTTPServer",
                "HTTPClient", "WebSocketClient",
                "PostgresCluster",
                "Postgres", "Rules", "TLS", "Wire", "Tokens", "Tree", "Compression", "Crypto", "Runtime", "CBuild",
            ], swiftSettings: settings),

        // Mutates inputs of every parser that meets the network, the log or a file of users: `make campaign NAME=fuzz`.
        .executableTarget(
            name: "pathmirror-fuzz",
            dependencies: [
                "Tree", "Wire", "Rules", "Tokens", "Crypto", "Compression", "LogStore", "Mirrors", "Feeds", "JSONText",
                "ClientCore", "WebSocketClient", "Follower",
            ],
            path: "Sources/Fuzz", swiftSettings: settings),

        // Tests; run by `swift test`.
        .target(
            name: "TestSupport",
            dependencies: [
                "PostgresCluster", "Postgres", "LogStore", "Engine", "Rules", "Tree", "Crypto", "Runtime", "CNATS",
                "CKafka",
            ],
            path: "Tests/TestSupport", swiftSettings: settings),
        tests("JSONTextTests", ["JSONText", "Mirrors", "Tokens", "Tree", "TestSupport"]),
        tests("CryptoTests", ["Crypto", "TestSupport"]),
        tests("TokensTests", ["Tokens", "Tree", "Crypto", "TestSupport"]),
        tests("CompressionTests", ["Compression"]),
        tests("RuntimeTests", ["Runtime"]),
        tests("TreeTests", ["Tree", "Crypto"]),
        .testTarget(
            name: "RulesTests", dependencies: ["Rules", "Tree"], resources: [.copy("Fixtures")],
            swiftSettings: settings),
        tests("WireTests", ["Wire", "Tree", "Crypto", "TestSupport"]),
        .testTarget(
            name: "ClientCoreTests", dependencies: ["ClientCore", "Wire", "Tree", "TestSupport"],
            exclude: ["Fixtures"], swiftSettings: settings),
        .target(
            name: "ClientSupport", dependencies: ["ClientCore", "Wire", "Tree", "Crypto", "Runtime"],
            path: "Tests/ClientSupport",
            swiftSettings: settings),
        tests(
            "WebSocketClientTests",
            [
                "WebSocketClient", "ClientCore", "ClientSupport", "HTTPServer", "TLS", "Crypto", "Wire", "Tree",
                "Runtime", "TestSupport",
            ]),
        tests("SQLiteTests", ["SQLite", "TestSupport"]),
        tests(
            "PathmirrorClientTests",
            [
                "PathmirrorClient", "ClientCore", "ClientSupport", "SQLite", "Tokens", "Wire", "Tree", "Runtime",
                "TestSupport", "store-writer", "client-writer",
            ]),
        // Killed by the client's end-to-end tests while it writes.
        .executableTarget(
            name: "client-writer", dependencies: ["PathmirrorClient"], path: "Tests/ClientWriter",
            swiftSettings: settings),
        // Killed by the tests of the client's store while it writes.
        .executableTarget(
            name: "store-writer", dependencies: ["PathmirrorClient", "ClientCore", "Tree"], path: "Tests/StoreWriter",
            swiftSettings: settings),
        tests(
            "FollowerTests",
            [
                "Follower", "ClientCore", "HTTPClient", "Wire", "Tree", "Crypto", "Tokens", "Runtime", "TestSupport",
            ]),
        tests("PostgresTests", ["Postgres", "PostgresCluster", "Runtime"]),
        tests("PostgresClusterTests", ["Postgres", "PostgresCluster"]),
        tests("TLSTests", ["TLS", "TestSupport"]),
        tests("HTTPServerTests", ["HTTPServer", "TLS", "CEvent", "COpenSSL", "Runtime"]),
        tests("HTTPClientTests", ["HTTPClient", "HTTPServer", "TLS", "Crypto", "Runtime", "TestSupport"]),
        tests("NATSClientTests", ["NATSClient", "Runtime", "TestSupport"]),
        tests("KafkaClientTests", ["KafkaClient", "Runtime", "TestSupport"]),
        tests(
            "LogStoreTests",
            [
                "LogStore", "Engine", "Retention", "Postgres", "PostgresCluster", "Rules", "Tree", "Crypto", "Runtime",
                "TestSupport",
            ]),
        tests("EngineTests", ["Engine", "LogStore", "Postgres", "Rules", "Tree", "Runtime", "TestSupport"]),
        tests(
            "MirrorsTests",
            ["Mirrors", "Engine", "LogStore", "Postgres", "Rules", "Tree", "JSONText", "Runtime", "TestSupport"]),
        tests(
            "FeedsTests",
            [
                "Feeds", "Engine", "LogStore", "HTTPClient", "NATSClient", "KafkaClient", "HTTPServer", "Postgres",
                "Rules",
                "Crypto", "Tree", "JSONText", "Runtime", "TestSupport",
            ]),
        tests(
            "GatewayTests",
            [
                "Gateway", "Placement", "Engine", "LogStore", "HTTPServer", "HTTPClient", "Rules", "Wire", "Tokens",
                "Tree",
                "Crypto", "Compression", "Runtime", "TestSupport",
            ]),
        tests(
            "PathmirrorTests",
            [
                "pathmirror", "Gateway", "Placement", "Engine", "Mirrors", "Feeds", "Retention", "LogStore",
                "HTTPServer",
                "HTTPClient",
                "PostgresCluster",
                "Postgres", "Rules", "TLS", "Tokens", "Tree", "Compression", "Crypto", "Runtime", "TestSupport",
            ]),
        tests("HouseTests", []),
    ],
    swiftLanguageModes: [.v6],
    cxxLanguageStandard: .cxx17
)

// `make test ROOM=Tree` builds the tests of one room and what they need, and nothing else.
if let room = Context.environment["PATHMIRROR_ROOM"], !room.isEmpty {
    var needed: Set<String> = []
    var open = ["\(room)Tests"]
    while let name = open.popLast() {
        guard needed.insert(name).inserted, let target = package.targets.first(where: { $0.name == name }) else {
            continue
        }
        for case .byNameItem(let dependency, _) in target.dependencies { open.append(dependency) }
    }
    package.targets.removeAll { !needed.contains($0.name) }
    package.products.removeAll()
}
