import Testing

/// Checks the dependencies between the folders of large targets: the folders whose types a folder may name. A type belongs to the folder
/// of the file that declares it; extensions elsewhere count as naming it.
@Suite struct FolderTests {
    /// For each target: for each folder ("" for the target's own files) the other folders that it may name.
    static let allowed: [String: [String: Set<String>]] = [
        "Engine": engine, "Feeds": feeds, "Gateway": gateway, "Mirrors": mirrors,
    ]

    private static let engine: [String: Set<String>] = [
        "": [
            "Batches", "Commit", "Common", "Core", "Database", "Disconnects", "Following", "Large", "Leases",
            "Namespaces", "Reading",
        ],
        "Disconnects": ["Common", "Core", "Leases", "Namespaces", "Writes"],
        "Leases": ["Common", "Core"],
        "Large": ["Commit", "Common", "Core", "Database", "Namespaces", "Writes"],
        "Commit": ["Batches", "Common", "Core", "Following", "Namespaces", "Writes"],
        "Following": ["Common", "Core", "Namespaces"],
        "Core": ["Batches", "Common", "Database", "Namespaces", "Pages", "Peers", "Writes"],
        "Pages": ["Common", "Namespaces"],
        "Batches": ["Common", "Namespaces", "Writes"],
        "Namespaces": ["Common", "Database", "Listeners", "Writes"],
        "Writes": ["Common"],
        "Listeners": ["Common"],
        "Reading": ["Common", "Core"],
        "Common": [],
        "Database": [],
        "Peers": [],
    ]

    private static let feeds: [String: Set<String>] = [
        "Running": ["Administration", "Core", "Definition", "Delivery", "Matching", "Reading", "Sinks", "Webhooks"],
        "Administration": ["Core", "Definition", "Delivery", "Matching"],
        "Reading": ["Core", "Definition", "Delivery", "Matching"],
        "Matching": ["Definition", "Delivery"],
        "Delivery": ["Definition"],
        "Definition": ["Sinks", "Webhooks"],
        "Webhooks": ["Sinks"],
        "Sinks": [],
        "Core": [],
    ]

    private static let gateway: [String: Set<String>] = [
        "": [
            "Access", "Context", "Feeds", "Listeners", "Log", "Operations", "REST", "Realtime", "Routing", "Settings",
            "ServiceAccounts", "Shared", "Streams",
        ],
        "Routing": [
            "Context", "Description", "Feeds", "Log", "Operations", "Pages", "REST", "Realtime",
            "ServiceAccounts", "Settings", "Shared",
        ],
        "REST": ["Access", "Context", "Listeners", "Shared", "Streams"],
        "Feeds": ["Access", "Context", "Shared"],
        "ServiceAccounts": ["Access", "Context", "Shared"],
        "Settings": ["Access", "Context", "Shared"],
        "Log": ["Access", "Context", "Shared"],
        "Description": ["Shared"],
        "Operations": ["Access", "Context", "Shared"],
        "Streams": ["Access", "Listeners", "Shared"],
        "Realtime": ["Access", "Context", "Listeners", "Shared"],
        "Context": ["Access", "Shared"],
        "Listeners": ["Shared"],
        "Shared": ["Access", "Pages"],
        "Access": [],
        "Pages": [],
    ]

    private static let mirrors: [String: Set<String>] = [
        "Running": ["Building", "Catalog", "Following", "Tables"],
        "Inference": ["Catalog", "Columns", "Definition"],
        "Building": ["Catalog", "Definition", "Following", "History", "Projection", "Tables", "Verifying"],
        "Verifying": ["Catalog", "Definition", "History", "Projection", "Tables"],
        "Following": ["Catalog", "History", "Projection", "Tables"],
        "History": ["Columns", "Definition", "Projection", "Tables"],
        "Tables": ["Catalog", "Columns", "Definition", "Projection"],
        "Projection": ["Columns", "Definition"],
        "Catalog": ["Definition"],
        "Definition": ["Columns"],
        "Columns": [],
    ]

    @Test(arguments: allowed.keys.sorted())
    func foldersPointDown(_ room: String) throws {
        let table = try #require(Self.allowed[room])
        let files = SourceFiles.swift(below: "Sources/\(room)")
        let folderOfType = Self.foldersOfTypes(of: files)
        #expect(folderOfType.count > 10, "the types of \(room) are found")
        var used: Set<String> = []
        for file in files {
            let folder = Self.folder(of: file)
            guard let mayName = table[folder] else {
                Issue.record("\(room)/\(folder) is a new folder: say in this table what it may name (\(file.path))")
                continue
            }
            for (index, line) in file.lines.enumerated() {
                for word in Self.words(StyleTests.withoutCommentsAndTexts(line)) {
                    guard let other = folderOfType[word], other != folder else { continue }
                    used.insert("\(folder) -> \(other)")
                    if !mayName.contains(other) {
                        Issue.record("\(file.path):\(index + 1) names \(word) of \(room)/\(other)")
                    }
                }
            }
        }
        for (folder, others) in table {
            for other in others {
                #expect(used.contains("\(folder) -> \(other)"), "\(room)/\(folder) does not need \(other) any more")
            }
        }
    }

    /// Checks that the tables have no cycle.
    @Test(arguments: allowed.keys.sorted())
    func tablesHaveNoCycle(_ room: String) throws {
        var rest = try #require(Self.allowed[room])
        while let leaf = rest.first(where: { $0.value.allSatisfy { rest[$0] == nil } })?.key { rest[leaf] = nil }
        #expect(rest.isEmpty, "a cycle among \(rest.keys.sorted())")
    }

    private static func folder(of file: SourceFiles.File) -> String {
        // Sources/Room/Folder/…/File.swift
        let parts = file.path.split(separator: "/").map(String.init)
        return parts.count > 3 ? parts[2] : ""
    }

    /// The folder of each type that a file declares at its outermost level. A name that two folders declare is left out.
    private static func foldersOfTypes(of files: [SourceFiles.File]) -> [String: String] {
        var foldersOfTypes: [String: Set<String>] = [:]
        for file in files {
            for line in file.lines where line.first.map({ $0.isLetter || $0 == "@" }) == true {
                if let name = declaredType(line) { foldersOfTypes[name, default: []].insert(folder(of: file)) }
            }
        }
        return foldersOfTypes.compactMapValues { $0.count == 1 ? $0.first : nil }
    }

    private static let kinds: Set<String> = ["struct", "class", "enum", "protocol", "actor", "typealias"]
    private static let modifiers: Set<String> = [
        "public", "package", "internal", "private", "fileprivate", "final", "indirect",
    ]

    static func declaredType(_ line: String) -> String? {
        var words = words(line)[...]
        while let word = words.first, modifiers.contains(word) || line.hasPrefix("@") && !kinds.contains(word) {
            words = words.dropFirst()
        }
        guard let kind = words.first, kinds.contains(kind) else { return nil }
        return words.dropFirst().first
    }

    private static func words(_ code: String) -> [String] {
        code.split { !($0.isLetter || $0.isNumber || $0 == "_") }.map(String.init)
    }

    @Test func typesAreFound() {
        #expect(Self.declaredType("public final class Engine: Sendable {") == "Engine")
        #expect(Self.declaredType("@unchecked struct Two<Value> {") == "Two")
        #expect(Self.declaredType("extension Engine {") == nil)
        #expect(Self.declaredType("let structure = 1") == nil)
    }
}
