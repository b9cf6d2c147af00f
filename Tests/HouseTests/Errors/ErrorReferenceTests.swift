import Glibc
import Testing

/// Checks that the tables contain each error that the sources send, and that docs/reference/errors.md is printed from both.
///
/// `PATHMIRROR_WRITE_REFERENCE=1` writes the page before the comparison.
@Suite struct ErrorReferenceTests {
    // MARK: Each error has a row

    @Test func everyErrorHasARow() {
        for (sections, errors) in [
            (HTTPErrorTable.sections, ErrorSources.http()), (RealtimeErrorTable.sections, ErrorSources.realtime()),
        ] {
            #expect(errors.count > 25, "the errors are found")
            for error in Set(errors) where sections.code(of: error.text) == nil {
                Issue.record("no row has the error \(error.status) \(error.text)")
            }
            for text in sections.unused(by: errors) { Issue.record("no error has the text: \(text)") }
        }
    }

    /// Checks that the texts of `variables` are in the sources, except for quotes, which other code adds.
    @Test func variablesHaveTextsOfTheSources() {
        func plain(_ text: some StringProtocol) -> String { String(text).filter { $0 != "\"" && $0 != "\\" } }
        let sources = SourceTexts.files.map { plain($0.text) }.joined()
        for text in ErrorSources.variables.values.flatMap(\.self) {
            for part in text.split(separator: "…") {
                let isFound = sources.contains(plain(part))
                #expect(isFound, "no source has the text: \(part)")
            }
        }
    }

    /// Checks that no answer avoids the calls that `SentErrors` finds.
    @Test func answersWithOtherStatusesAreKnown() {
        let known: [String: Set<String>] = [
            // The current value at the path.
            "Sources/Gateway/REST/WriteAnswer.swift": ["412"],
            // The text is an argument of `errorBody`.
            "Sources/HTTPServer/Connection/Connection+Output.swift": ["503"],
        ]
        for (path, text) in SourceTexts.files
        where path.hasPrefix("Sources/Gateway/") || path.hasPrefix("Sources/HTTPServer/") {
            let statuses = Set(text.matches(of: #/status: ([45]\d\d)\b/#).map { String($0.1) })
            #expect(statuses == known[path] ?? [], "\(path): make the answer from a RESTError")
            #expect(!text.contains(#/ErrorBody\.encode\(\s*"/#), "\(path): make the body from a RESTError")
        }
    }

    @Test func everyTypedErrorHasARow() {
        for type in CommandErrorTable.types {
            let cases = Set(SourceTexts.declaredCases(of: type.name, in: type.file))
            #expect(!cases.isEmpty, "the cases of \(type.name) are found")
            #expect(cases == Set(type.rows.keys), "the rows of \(type.name)")
        }
        var seen = Set(CommandErrorTable.types.map(\.name))
        for (path, text) in SourceTexts.files where !path.hasPrefix("Sources/Fuzz/") {
            for match in text.matches(of: #/\n[a-z ]*(?:enum|struct) (\w+): [\w, ]*\bError\b[\w, ]*/#)
            where match.0.contains("CustomStringConvertible") {
                let stem = path.split(separator: "/").last?.split(separator: ".").first ?? ""
                let name = match.1 == "Failure" ? "\(stem).Failure" : String(match.1)
                let isKnown = seen.contains(name) || CommandErrorTable.without[name] != nil
                #expect(isKnown, "\(path): \(name) needs rows, or a reason for which it has none")
                seen.insert(name)
            }
        }
        for name in CommandErrorTable.without.keys { #expect(seen.contains(name), "there is no error \(name)") }
    }

    @Test func everyExitCodeHasARow() {
        let pattern = #/(?:failureCode: Int32 (?:= |\{ )|CommandEnd\(|\b_?exit\()(\d+)\b/#
        var codes: Set<Int> = [0]
        for (path, text) in SourceTexts.files where path.hasPrefix("Sources/pathmirror/") {
            codes.formUnion(text.matches(of: pattern).compactMap { Int($0.1) })
            guard path.hasSuffix("/Commands.swift") else { continue }
            codes.formUnion(text.matches(of: #/return (\d+)\n/#).compactMap { Int($0.1) })
        }
        // `Interruption.exitCode`.
        codes.formUnion([SIGHUP, SIGINT, SIGTERM].map { 128 + Int($0) })
        #expect(codes == Set(CommandErrorTable.exitCodes.map(\.code)))
    }

    /// Checks that codes are unique on each surface and have one form, since users refer to them.
    @Test func codesAreUnique() {
        let commands = CommandErrorTable.types.flatMap { $0.rows.values.map(\.code) }
        for codes in [HTTPErrorTable.sections.rows.map(\.code), RealtimeErrorTable.sections.rows.map(\.code), commands]
        {
            #expect(Set(codes).count == codes.count)
            for code in codes { #expect(code.wholeMatch(of: #/[a-z]+(_[a-z]+)*/#) != nil, "\(code)") }
        }
    }

    // MARK: The page

    private static let page = "docs/reference/errors.md"

    @Test func thePageIsPrintedFromTheTables() {
        let text = ErrorPage.printed()
        if getenv("PATHMIRROR_WRITE_REFERENCE") != nil { SourceFiles.write(text, to: Self.page) }
        #expect(
            SourceFiles.text(Self.page) == text,
            "run: PATHMIRROR_WRITE_REFERENCE=1 make test ROOM=House FILTER=ErrorReferenceTests")
    }

    /// Checks that the fixes name commands and options that exist.
    @Test func fixesNameWhatThereIs() {
        let commands = SourceTexts.files.filter { $0.path.hasPrefix("Sources/pathmirror/") }.map(\.text).joined()
        let text = ErrorPage.printed()
        for match in text.matches(of: #/`pathmirror ([a-z-]+(?: [a-z]+)?)[^`]*`/#) {
            #expect(commands.contains("\"\(match.1)\""), "there is no command \(match.1)")
        }
        for match in text.matches(of: #/`--([a-z-]+)/#) {
            #expect(commands.contains("\"\(match.1)\""), "there is no option --\(match.1)")
        }
    }
}
