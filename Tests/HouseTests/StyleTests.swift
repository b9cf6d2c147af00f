import Testing

/// Checks the project's style rules for source files.
@Suite struct StyleTests {
    private static let maxFileLines = 500

    @Test func filesAreShort() {
        for file in SourceFiles.swift(below: "Sources") + SourceFiles.swift(below: "Tests") {
            #expect(file.lines.count <= Self.maxFileLines, "\(file.path)")
        }
    }

    private struct Banned {
        let text: String
        let reason: String
        /// Files in which the call is allowed.
        var exceptions: Set<String> = []
        /// A target in which the call is allowed.
        var exceptRoom: String?
    }

    private static let banned = [
        Banned(text: "print(", reason: "output goes through Console or Logger"),
        Banned(text: "try!", reason: "errors are handled or thrown"),
        Banned(text: "as!", reason: "types are known"),
        Banned(
            text: "fatalError(", reason: "nothing that a peer does ends the process",
            exceptions: ["Sources/PathmirrorClient/Errors/Misuse.swift"]),
        Banned(text: "JSONSerialization", reason: "JSON goes straight into the tree type"),
        Banned(
            text: "JSONDecoder", reason: "JSON goes straight into the tree type",
            // Apps choose by its strategies how their own types are decoded.
            exceptions: ["Sources/PathmirrorClient/Codable/Coders.swift"]),
        Banned(text: "Task.detached", reason: "threads are Runtime's"),
        Banned(
            text: "DispatchQueue", reason: "threads are Runtime's", exceptRoom: ImportTests.library),
    ]

    @Test func bannedCalls() {
        for file in SourceFiles.swift(below: "Sources") {
            for (index, line) in file.lines.enumerated() {
                let code = Self.withoutCommentsAndTexts(line)
                for banned in Self.banned
                where !banned.exceptions.contains(file.path) && banned.exceptRoom != file.room {
                    if Self.calls(banned.text, in: code) {
                        Issue.record("\(file.path):\(index + 1) uses \(banned.text): \(banned.reason)")
                    }
                }
            }
        }
    }

    /// Checks that tests that look for waiting sessions look in their own database: others share its cluster.
    @Test func waitingSessionsAreOnesOwn() {
        for file in SourceFiles.swift(below: "Tests") {
            for (index, line) in file.lines.enumerated() where line.contains("pg_locks " + "where not granted") {
                #expect(line.contains("pid"), "\(file.path):\(index + 1)")
            }
        }
    }

    /// Checks that a comment next to each unchecked concurrency annotation explains its safety.
    @Test func uncheckedConcurrencySaysWhy() {
        for file in SourceFiles.swift(below: "Sources") + SourceFiles.swift(below: "Tests") {
            for (index, line) in file.lines.enumerated()
            where ["@unchecked Sendable", "nonisolated(unsafe)"].contains(
                where: Self.withoutCommentsAndTexts(line).contains)
            {
                let above = index > 0 ? file.lines[index - 1].drop { $0 == " " } : ""
                #expect(above.hasPrefix("//"), "\(file.path):\(index + 1)")
            }
        }
    }

    /// Checks that no committed file contains paths of the machine on which it was written.
    @Test func noPathsOfOneMachine() {
        // Concatenated here, so that this file does not contain them.
        let signs = ["/work" + "/main", "/work" + "/shared", "/tmp" + "/brief"]
        for file in SourceFiles.swift(below: "Sources") + SourceFiles.swift(below: "Tests") {
            for (index, line) in file.lines.enumerated() {
                for sign in signs where line.contains(sign) { Issue.record("\(file.path):\(index + 1) names \(sign)") }
            }
        }
    }

    /// Whether the code contains the call, not the end of a longer name.
    private static func calls(_ text: String, in code: String) -> Bool {
        var rest = code[...]
        while let found = rest.firstRange(of: text) {
            let before = found.lowerBound == code.startIndex ? " " : code[code.index(before: found.lowerBound)]
            if !before.isLetter, !before.isNumber, before != "_", before != "." { return true }
            rest = rest[found.upperBound...]
        }
        return false
    }

    /// The code of a line, without the contents of quotes and without the comment.
    static func withoutCommentsAndTexts(_ line: String) -> String {
        var code = ""
        var isInText = false
        var previous: Character = " "
        for character in line {
            if character == "\"", previous != "\\" {
                isInText.toggle()
            } else if !isInText {
                if character == "/", previous == "/" { return String(code.dropLast()) }
                code.append(character)
            }
            previous = character
        }
        return code
    }

    @Test func codeIsDistinguishedFromComments() {
        #expect(Self.withoutCommentsAndTexts("let a = \"print(\" // try!") == "let a =  ")
        #expect(Self.calls("print(", in: "print(1)"))
        #expect(!Self.calls("print(", in: "fingerprint(1)"))
        #expect(ImportTests.importedModule("@testable public import struct Tree.Node") == "Tree")
        #expect(ImportTests.importedModule("important()") == nil)
    }
}
