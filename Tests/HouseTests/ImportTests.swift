import Testing

/// Checks that a target imports only its direct dependencies in Package.swift, the only definition. SwiftPM does not check that: it also
/// allows imports of indirect dependencies.
@Suite struct ImportTests {
    /// Targets that may import everything: the executable, and the fuzz programs.
    static let top: Set<String> = ["pathmirror", "Fuzz"]

    /// The modules of the toolchain that a target may import. Pure targets have no clock, file or socket, so they import no Glibc.
    static let ofTheSystem: Set<String> = ["Glibc", "Synchronization"]
    /// The library for Swift apps, which uses Foundation's types and calls back on dispatch queues. The targets below it do not.
    static let library = "PathmirrorClient"
    static let pure: Set<String> = [
        "JSONText", "Crypto", "Compression", "Tree", "Tokens", "Rules", "Wire", "ClientCore",
    ]

    @Test func importsPointDown() {
        let files = SourceFiles.swift(below: "Sources")
        #expect(files.count > 100, "the sources are found")
        for file in files where !Self.top.contains(file.room) {
            guard let allowed = Manifest.dependencies[file.room] else {
                Issue.record("Package.swift has no target \(file.room) (\(file.path))")
                continue
            }
            var system = Self.pure.contains(file.room) ? [] : Self.ofTheSystem
            // Threads read a tree while its pages come and go. The tree needs a lock, but no clock, file or socket.
            if file.room == "Tree" { system = ["Synchronization"] }
            if file.room == Self.library { system.formUnion(["Foundation", "Dispatch"]) }
            for module in file.lines.compactMap(Self.importedModule) where !allowed.union(system).contains(module) {
                Issue.record("\(file.path) imports \(module), which \(file.room) may not")
            }
        }
    }

    /// Checks that each dependency in the manifest is imported.
    @Test func dependenciesAreUsed() {
        var imported: [String: Set<String>] = [:]
        for file in SourceFiles.swift(below: "Sources") {
            imported[file.room, default: []].formUnion(file.lines.compactMap(Self.importedModule))
        }
        for (target, dependencies) in Manifest.dependencies {
            guard let modules = imported[target] else { continue }
            #expect(dependencies.subtracting(modules).isEmpty, "\(target) does not import these")
        }
    }

    @Test func dependenciesHaveNoCycle() {
        var rest = Manifest.dependencies
        #expect(rest.count > 25, "the targets are found")
        while let leaf = rest.first(where: { $0.value.allSatisfy { rest[$0] == nil } })?.key { rest[leaf] = nil }
        #expect(rest.isEmpty, "\(rest.keys.sorted()) depend on one another")
    }

    @Test func targetsAreFound() {
        let manifest = """
                target("A"),
                .target(
                    name: "B", dependencies: ["A", "C"],
                    resources: [.embedInCode("x.sql")], swiftSettings: settings),
                .executableTarget(name: "d", dependencies: ["B"], path: "Sources/D", swiftSettings: settings),
                .target(name: "Support", dependencies: ["B"], path: "Tests/Support", swiftSettings: settings),
                tests("BTests", ["B"]),
            """
        #expect(Manifest.targets(in: manifest) == ["A": [], "B": ["A", "C"], "D": ["B"]])
    }

    /// Checks that the table of docs/explanation/architecture.md equals Package.swift.
    @Test func theArchitecturePageSaysTheSame() {
        let page = SourceFiles.text("docs/explanation/architecture.md")
        var documented: [String: Set<String>] = [:]
        for row in page.matches(of: #/^\| ([A-Za-z; ]+) \| ([A-Za-z0-9,; –]+) \| /#.anchorsMatchLineEndings()) {
            let targets = row.1.split(separator: ";")
            let imports = row.2.split(separator: ";")
            guard targets.count == imports.count else { continue }
            for (target, names) in zip(targets, imports) {
                let name = target.filter { $0 != " " }
                guard Manifest.dependencies[name] != nil else { continue }
                documented[name] = Set(names.split(separator: ",").map { $0.filter { $0 != " " } }).subtracting(["–"])
            }
        }
        for (target, dependencies) in Manifest.dependencies where !Self.isLibrary(target) && target != "pathmirror" {
            let system: Set<String> = target == Self.library ? ["Foundation"] : []
            #expect(documented[target] == dependencies.union(system), "\(target) in docs/explanation/architecture.md")
        }
    }

    /// Checks that the protocol code of clients contains no server: only values, text and digests.
    @Test(arguments: ["Wire", "Tree", "ClientCore"]) func clientsNeedNoServer(room: String) {
        let needed = Self.needed(by: room)
        #expect(needed.isSubset(of: ["Wire", "Tree", "JSONText", "Crypto", "CCrypto", "ClientCore"]))
        #expect(needed.subtracting(["CCrypto"]).isSubset(of: Self.pure))
    }

    /// Checks that an app with the library contains no server.
    @Test func theLibraryNeedsNoServer() {
        #expect(
            Self.needed(by: Self.library) == [
                "PathmirrorClient", "ClientCore", "WebSocketClient", "SQLite", "TLS", "Wire", "Tree", "Crypto",
                "JSONText", "Runtime",
                "CEpoll", "COpenSSL", "CSQLite", "CCrypto",
            ])
    }

    private static func needed(by room: String) -> Set<String> {
        var needed: Set<String> = []
        var rest = [room]
        while let next = rest.popLast() {
            if needed.insert(next).inserted { rest += Manifest.dependencies[next] ?? [] }
        }
        return needed
    }

    /// Checks that an app's connections contain no part of the server.
    @Test func connectionsOfAppsNeedNoServer() {
        var needed: Set<String> = []
        var rest = ["WebSocketClient"]
        while let next = rest.popLast() {
            if needed.insert(next).inserted { rest += Manifest.dependencies[next] ?? [] }
        }
        let rooms = needed.filter { !Self.isLibrary($0) }
        #expect(
            rooms.isSubset(of: [
                "WebSocketClient", "ClientCore", "TLS", "Runtime", "Wire", "Tree", "Crypto", "JSONText",
            ]))
        #expect(needed.subtracting(rooms).isSubset(of: ["CEpoll", "COpenSSL", "CCrypto"]))
    }

    /// Checks that each C library has one wrapper.
    @Test func oneWrapperPerLibrary() {
        var wrappers: [String: Set<String>] = [:]
        let libraries = Set(SourceFiles.folders(in: "Sources").filter { Self.isLibrary($0) })
        for file in SourceFiles.swift(below: "Sources") {
            for module in file.lines.compactMap(Self.importedModule) where libraries.contains(module) {
                wrappers[module, default: []].insert(file.room)
            }
        }
        for (library, rooms) in wrappers { #expect(rooms.count == 1, "\(library) is imported by \(rooms.sorted())") }
    }

    /// Checks that only the library for apps imports Foundation.
    @Test func noFoundation() {
        for file in SourceFiles.swift(below: "Sources") where file.room != Self.library {
            for module in file.lines.compactMap(Self.importedModule) where module.hasPrefix("Foundation") {
                Issue.record("\(file.path) imports \(module)")
            }
        }
    }

    @Test func productsDoNotImportTests() {
        for file in SourceFiles.swift(below: "Sources") {
            let modules = Set(file.lines.compactMap(Self.importedModule))
            #expect(modules.isDisjoint(with: ["TestSupport", "Testing", "XCTest"]), "\(file.path)")
        }
    }

    /// `CPostgres`, not `Client`.
    private static func isLibrary(_ name: String) -> Bool {
        name.first == "C" && name.dropFirst().first?.isUppercase == true
    }

    /// The module of an import line.
    static func importedModule(_ line: String) -> String? {
        var words = line.split(separator: " ")[...]
        while let first = words.first, first.hasPrefix("@") || accessLevels.contains(String(first)) {
            words = words.dropFirst()
        }
        guard words.first == "import" else { return nil }
        // `import struct Module.Name`
        guard let last = words.dropFirst().last(where: { !$0.hasPrefix("//") }) else { return nil }
        return last.split(separator: ".").first.map(String.init)
    }

    private static let accessLevels: Set<String> = ["public", "package", "internal", "fileprivate", "private"]
}
