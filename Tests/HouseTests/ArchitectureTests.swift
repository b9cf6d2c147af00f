import Testing

/// Checks that the pages about the architecture name existing files.
@Suite struct ArchitectureTests {
    private static let pages = [
        "docs/explanation/architecture.md", "docs/explanation/architecture-put.md",
        "docs/explanation/architecture-listener.md",
        "docs/explanation/architecture-log-reader.md", "docs/explanation/architecture-feed.md",
        "docs/explanation/architecture-client.md", "docs/explanation/architecture-follower.md",
        "docs/explanation/code-in-fifteen-minutes.md",
    ]

    @Test(arguments: pages)
    func namedFilesExist(_ page: String) {
        let sources = Set(SourceFiles.swift(below: "Sources").map { String($0.path.dropFirst("Sources/".count)) })
        let names = Set(sources.map { String($0.split(separator: "/").last ?? "") })
        let named = Self.swiftFiles(in: SourceFiles.text(page)).filter { $0 != "Package.swift" }
        #expect(named.count > 5, "\(page) names files")
        for file in named {
            let isThere =
                file.contains("/") ? sources.contains { $0 == file || $0.hasSuffix("/" + file) } : names.contains(file)
            #expect(isThere, "\(page) names \(file)")
        }
    }

    /// Checks that the path of a write from the socket to the answer names each file once.
    @Test func aWriteMeetsNoFileTwice() {
        var seen: Set<String> = []
        for file in Self.swiftFiles(in: SourceFiles.text("docs/explanation/architecture-put.md")) {
            #expect(seen.insert(file).inserted, "\(file) is named twice")
        }
    }

    /// Returns the words between backticks that end with `.swift`, in the order of the text.
    static func swiftFiles(in text: String) -> [String] {
        text.split(separator: "`", omittingEmptySubsequences: false).enumerated()
            .filter { $0.offset % 2 == 1 && $0.element.hasSuffix(".swift") && !$0.element.contains(" ") }
            .map { String($0.element) }
    }

    @Test func filesAreFoundInText() {
        #expect(Self.swiftFiles(in: "a `B/C.swift`, `d` and `E.swift`; `f.sql`") == ["B/C.swift", "E.swift"])
    }
}
