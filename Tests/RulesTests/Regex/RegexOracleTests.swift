import Foundation
import Testing

@testable import Rules

/// Compares the rules language's regular expressions with the library that Firebase uses (Tests/regex).
@Suite struct RegexOracleTests {
    private static let environment = ProcessInfo.processInfo.environment

    /// Returns the answer of this implementation.
    private func answer(_ pattern: OraclePattern) -> RegexOracle.Answer {
        do {
            let regex = try Regex(RegexLiteral(pattern: pattern.rules, ignoresCase: pattern.ignoresCase))
            return .matches(pattern.texts.map(regex.matches))
        } catch {
            let prefix = "Illegal regular expression, "
            return .refused(
                error.message.hasPrefix(prefix) ? String(error.message.dropFirst(prefix.count)) : error.message)
        }
    }

    /// Whether the answers are the same. The position of an error is compared only if the library received the pattern
    /// unchanged.
    private func isSame(_ answer: RegexOracle.Answer, _ expected: RegexOracle.Answer, _ pattern: OraclePattern) -> Bool
    {
        guard pattern.isTranslated, case .refused(let message) = answer, case .refused(let other) = expected else {
            return answer == expected
        }
        return withoutPosition(message) == withoutPosition(other)
    }

    private func withoutPosition(_ message: String) -> String {
        message.split(separator: " at position ").first.map(String.init) ?? message
    }

    /// Whether a pattern is small. The library builds a deterministic automaton of each pattern, which may take
    /// gigabytes for a longer one.
    private func isSmall(_ pattern: OraclePattern) -> Bool {
        func positions(_ syntax: RegexSyntax) -> Int {
            switch syntax {
            case .empty, .nothing: 0
            case .units: 1
            case .sequence(let items), .choice(let items): items.reduce(0) { $0 + positions($1) }
            case .repeated(let item, let low, let high): positions(item) * max(low, high ?? 1, 1)
            }
        }
        let literal = RegexLiteral(pattern: pattern.rules, ignoresCase: pattern.ignoresCase)
        var work = 0
        guard let parsed = try? RegexParser.parse(literal, work: &work) else { return true }
        return positions(parsed.syntax) <= 20
    }

    /// Whether a difference is documented: the library treats `^` and `$` as characters where the rules language
    /// refuses them.
    private func isDocumented(_ answer: RegexOracle.Answer) -> Bool {
        guard case .refused(let message) = answer else { return false }
        return message.hasPrefix("^ is only allowed") || message.hasPrefix("$ is only allowed")
    }

    /// Compares pairs of a pattern and a text, whose number is `PATHMIRROR_REGEX_PAIRS`, from the random seed
    /// `PATHMIRROR_REGEX_SEED`. `PATHMIRROR_REGEX_RECORD` names a file for the answers.
    @Test(.enabled(if: RegexOracle.isInstalled, "needs libautomaton-java and a JDK: make campaign NAME=regex"))
    func theLibraryAnswersTheSame() throws {
        let pairs = Self.environment["PATHMIRROR_REGEX_PAIRS"].flatMap(Int.init) ?? 4000
        let seed = Self.environment["PATHMIRROR_REGEX_SEED"].flatMap(UInt64.init) ?? 1
        var maker = RandomPatterns(seed: seed)
        var patterns = RegexSamples.all
        var count = patterns.reduce(0) { $0 + $1.texts.count }
        while count < pairs {
            let pattern = maker.next()
            guard isSmall(pattern) else { continue }
            count += pattern.texts.count
            patterns.append(pattern)
        }
        let expected = try RegexOracle.answers(to: patterns)
        var (matched, refused, documented) = (0, 0, 0)
        var differences: [String] = []
        for (pattern, expected) in zip(patterns, expected) {
            let answer = answer(pattern)
            if isSame(answer, expected, pattern) {
                if case .matches(let matches) = answer { matched += matches.count { $0 } } else { refused += 1 }
            } else if isDocumented(answer) {
                documented += 1
            } else {
                differences.append("\(pattern): expected \(expected), not \(answer)")
            }
        }
        let summary =
            "regular expressions: \(count) pairs, \(patterns.count) patterns, \(refused) refused, \(matched) texts matched, "
            + "\(documented) with anchors inside, \(differences.count) different\n"
        FileHandle.standardError.write(Data(summary.utf8))
        #expect(differences.isEmpty, "\(differences.prefix(20).joined(separator: "\n"))")
        // The comparison means something only if there was something to compare.
        #expect(matched > count / 10 && refused > patterns.count / 50 && documented < patterns.count / 20)
        if let file = Self.environment["PATHMIRROR_REGEX_RECORD"] { try record(patterns, expected, in: file) }
    }

    // MARK: Recorded answers

    /// A line of the recorded answers.
    private struct Recorded: Codable {
        let pattern: String
        let ignoresCase: Bool?
        let texts: [String]
        let matches: [Bool]?
        let error: String?
    }

    private func record(_ patterns: [OraclePattern], _ answers: [RegexOracle.Answer], in file: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        var lines = Data()
        for (pattern, expected) in zip(patterns, answers) where !isDocumented(answer(pattern)) {
            var (matches, error): ([Bool]?, String?) = (nil, nil)
            switch expected {
            case .matches(let all): matches = all
            case .refused(let message): error = pattern.isTranslated ? withoutPosition(message) : message
            }
            lines += try encoder.encode(
                Recorded(
                    pattern: pattern.rules, ignoresCase: pattern.ignoresCase ? true : nil, texts: pattern.texts,
                    matches: matches, error: error))
            lines.append(UInt8(ascii: "\n"))
        }
        try lines.write(to: URL(filePath: file))
    }

    /// The recorded answers hold; this test needs no JDK.
    @Test func recordedAnswersHold() throws {
        let url = try #require(Bundle.module.url(forResource: "Fixtures/regex-answers", withExtension: "jsonl"))
        let lines = try Data(contentsOf: url).split(separator: UInt8(ascii: "\n"))
        #expect(lines.count > 500)
        for line in lines {
            let recorded = try JSONDecoder().decode(Recorded.self, from: line)
            let pattern = OraclePattern(
                rules: recorded.pattern, library: "", ignoresCase: recorded.ignoresCase ?? false, texts: recorded.texts)
            switch answer(pattern) {
            case .matches(let matches): #expect(matches == recorded.matches, "\(recorded.pattern), \(recorded.texts)")
            case .refused(let message):
                // The position is missing if the library received another form of the pattern.
                #expect(
                    [message, withoutPosition(message)].contains(recorded.error), "\(recorded.pattern): \(message)")
            }
        }
    }
}
