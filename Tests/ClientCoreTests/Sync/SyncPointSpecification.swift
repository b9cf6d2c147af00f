import Foundation
import Testing
import Tree
import Wire

/// Runs the language-neutral specification of the events that listeners receive.
@Suite struct SyncPointSpecification {
    /// The paths at which each case is run: the root and a deeper path.
    private static let bases = [Path.root, Path(splitting: "foo/bar/baz")]

    /// The SDKs' own file, which is not part of this repository.
    private static let file = ProcessInfo.processInfo.environment["PATHMIRROR_SYNC_SPEC"] ?? ""

    @Test(.enabled(if: !file.isEmpty, "PATHMIRROR_SYNC_SPEC names no file"))
    func theFileNamedByTheEnvironment() throws { try run(Self.file) }

    @Test(arguments: ["listens.json", "increments.json", "order.json", "sharing.json"])
    func ourOwnCases(name: String) throws {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Fixtures")
        try run(folder.appending(path: name).path)
    }

    private func run(_ file: String) throws {
        let text = Array(try Data(contentsOf: URL(filePath: file)))
        var failed: [String: [String]] = [:]
        var count = 0
        for base in Self.bases {
            let cases = try SpecificationCase.all(in: text, at: base)
            count = cases.count
            for test in cases {
                var run = SpecificationRun(at: base)
                try run.play(test)
                if !run.failures.isEmpty { failed[test.name, default: []] += run.failures }
            }
        }
        #expect(count > 0, "the file has no cases")
        print("\(count - failed.count) of \(count) held")
        for (name, failures) in failed.sorted(by: { $0.key < $1.key }) {
            Issue.record("\(name):\n  \(failures.joined(separator: "\n  "))")
        }
    }
}
