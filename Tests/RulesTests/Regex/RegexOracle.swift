import Foundation

/// The library dk.brics.automaton, if Debian's package of it and a JDK are installed.
struct RegexOracle {
    private static let library = "/usr/share/java/automaton.jar"
    private static let program = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../../regex/Oracle.java").standardizedFileURL.path(percentEncoded: false)

    static let isInstalled =
        FileManager.default.fileExists(atPath: library)
        && FileManager.default.isExecutableFile(atPath: "/usr/bin/javac")

    enum Answer: Equatable {
        /// Whether each text matches.
        case matches([Bool])
        /// The message of the error.
        case refused(String)
    }

    struct Failure: Error {
        let output: String
    }

    /// Returns one answer for each pattern, in order.
    static func answers(to patterns: [OraclePattern]) throws -> [Answer] {
        let folder = FileManager.default.temporaryDirectory.appending(path: "regex-oracle-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (questions, output) = (folder.appending(path: "questions"), folder.appending(path: "answers"))
        try Data(patterns.map { question($0) + "\n" }.joined().utf8).write(to: questions)
        try Data().write(to: output)
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/java")
        process.arguments = ["-Xmx1g", "-cp", library, program]
        process.standardInput = try FileHandle(forReadingFrom: questions)
        process.standardOutput = try FileHandle(forWritingTo: output)
        try process.run()
        process.waitUntilExit()
        let lines = String(decoding: try Data(contentsOf: output), as: UTF8.self)
            .split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        guard process.terminationStatus == 0, lines.count == patterns.count else {
            throw Failure(output: "exit code \(process.terminationStatus), \(lines.count) lines")
        }
        return lines.map { line in
            line.first == "!" ? .refused(String(line.dropFirst())) : .matches(line.map { $0 == "1" })
        }
    }

    private static func question(_ pattern: OraclePattern) -> String {
        ([pattern.isAnchoredAtStart ? "^" : "-", pattern.isAnchoredAtEnd ? "$" : "-", units(pattern.library)]
            + pattern.texts.map(units)).joined(separator: " ")
    }

    private static func units(_ text: String) -> String {
        if text.isEmpty { return "." }
        return text.utf16.map { unit in
            let digits = String(unit, radix: 16)
            return String(repeating: "0", count: 4 - digits.count) + digits
        }.joined()
    }
}
