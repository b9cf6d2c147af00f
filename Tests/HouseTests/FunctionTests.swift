import Testing

/// Checks that functions are short enough to be read at once, and that public ones have a doc comment.
@Suite struct FunctionTests {
    private static let maxLines = 60

    /// Longer functions, with the reason: `path name`.
    private static let longOnes: [String: String] = [:]

    @Test func functionsAreShort() {
        var found: Set<String> = []
        for file in SourceFiles.swift(below: "Sources") {
            for function in Function.all(in: file.lines) where function.lineCount > Self.maxLines {
                let name = "\(file.path) \(function.name)"
                found.insert(name)
                #expect(
                    Self.longOnes[name] != nil, "\(file.path):\(function.line) has \(function.lineCount) lines")
            }
        }
        #expect(found.isSuperset(of: Self.longOnes.keys), "an exception that nothing needs any more")
    }

    /// Requirements of protocols of the standard library, which documents them.
    private static let explainedElsewhere: Set<String> = [
        "==", "<", "hash", "encode", "next", "makeIterator", "index", "formIndex",
    ]

    @Test func publicFunctionsAreExplained() {
        for file in SourceFiles.swift(below: "Sources") {
            for function in Function.all(in: file.lines) where function.isPublic && !function.isExplained {
                if Self.explainedElsewhere.contains(function.name), function.name != "encode" { continue }
                Issue.record("\(file.path):\(function.line): \(function.name) is public and has no ///")
            }
        }
    }

    @Test func functionsAreFound() {
        let lines = """
            /// Adds.
            @inlinable
            public func add(_ a: Int) -> Int {
                // {
                a + 1
            }
                private static func two() { one() }
            public mutating func bare(
                _ a: Int
            ) {
            }
            let function = 1
            """.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        let functions = Function.all(in: lines)
        #expect(functions.map(\.name) == ["add", "two", "bare"])
        #expect(functions.map(\.lineCount) == [4, 1, 4])
        #expect(functions.map(\.isPublic) == [true, false, true])
        #expect(functions.map(\.isExplained) == [true, false, false])
    }
}

/// A function in a formatted file: its closing brace has the indentation of its first line.
struct Function {
    let name: String
    /// Counted from 1.
    let line: Int
    let lineCount: Int
    let isPublic: Bool
    let isExplained: Bool

    static func all(in lines: [String]) -> [Function] {
        lines.indices.compactMap { Function(lines, at: $0) }
    }

    private init?(_ lines: [String], at index: Int) {
        let code = lines[index].drop { $0 == " " }
        var words = code.split(separator: " ", omittingEmptySubsequences: true)[...]
        var isPublic = false
        while let word = words.first, word != "func" {
            guard word.hasPrefix("@") || Self.modifiers.contains(String(word)) else { return nil }
            if word == "public" { isPublic = true }
            words = words.dropFirst()
        }
        guard words.count >= 2, let named = words.dropFirst().first else { return nil }
        let indent = lines[index].prefix { $0 == " " }
        var end = index
        if !code.hasSuffix("}") {
            end = index + 1
            while end < lines.count, !(lines[end].hasPrefix(indent + "}")) { end += 1 }
            // A declaration without a body, as in a protocol, has no closing brace of its own.
            if !Self.opensBody(lines[index..<min(end, lines.count)], indent: indent.count) { end = index }
        }
        name = String(named.prefix { $0 != "(" && $0 != "<" || named.first == "<" && $0 == "<" })
        line = index + 1
        lineCount = end - index + 1
        self.isPublic = isPublic
        var above = index - 1
        while above >= 0, lines[above].drop(while: { $0 == " " }).hasPrefix("@") { above -= 1 }
        isExplained = above >= 0 && lines[above].drop { $0 == " " }.hasPrefix("///")
    }

    /// Whether the declaration's head ends with an opening brace, on its first line or on the line that closes its parameters.
    private static func opensBody(_ lines: ArraySlice<String>, indent: Int) -> Bool {
        guard let first = lines.first else { return false }
        if first.hasSuffix("{") { return true }
        for line in lines.dropFirst() {
            let depth = line.prefix { $0 == " " }.count
            if depth == indent { return line.hasSuffix("{") }
            if depth < indent { return false }
        }
        return false
    }

    private static let modifiers: Set<String> = [
        "public", "package", "internal", "private", "fileprivate", "static", "final", "override", "mutating",
        "nonmutating", "borrowing", "consuming", "nonisolated", "class",
    ]
}
