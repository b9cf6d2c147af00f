import Glibc
import Testing

/// Checks that the table contains each log message of the sources, and that docs/reference/log-events.md is printed from both.
///
/// `PATHMIRROR_WRITE_REFERENCE=1` writes the page before the comparison.
@Suite struct LogEventTests {
    private static let page = "docs/reference/log-events.md"

    /// Calls whose message is a variable, by file, with their possible messages.
    private static let variable: [String: [String]] = [
        "Sources/Retention/RetentionKeeper.swift": ["logs can't be shortened", "names of writes can't be deleted"],
        // The texts of refusals are in docs/reference/security.md.
        "Sources/Gateway/Routing/PageGate.swift": [],
        // The work of `dev` with its own PostgreSQL, and passwords on the command line.
        "Sources/pathmirror/Commands/Serve/DevCommand.swift": [],
        "Sources/pathmirror/Commands/Serve/ServeCommand.swift": [],
    ]

    private struct Event {
        let message: String
        let levels: [String]
        let fields: [String]
    }

    /// The events of info and above, in the order of targets and of their calls; each message once.
    private static func events() -> [(room: String, event: Event)] {
        var seen: Set<String> = []
        var found: [(room: String, event: Event)] = []
        for file in SourceFiles.swift(below: "Sources")
        where file.room != ImportTests.library && file.path != "Sources/Runtime/Logger.swift" {
            let text = file.lines.joined(separator: "\n")
            for call in LogCall.all(in: text) where call.levels != ["debug"] {
                let messages = call.messages.isEmpty ? variable[file.path] : call.messages
                guard let messages else {
                    Issue.record("\(file.path): the message of a log line is a variable: name its values in this table")
                    continue
                }
                for message in messages where seen.insert(message).inserted {
                    found.append((file.room, Event(message: message, levels: call.levels, fields: call.fields)))
                }
            }
        }
        return found
    }

    @Test func everyEventHasAdvice() {
        let messages = Set(Self.events().map(\.event.message))
        #expect(messages.count > 50, "the calls are found")
        for message in messages.subtracting(LogEventTable.advice.keys).sorted() {
            Issue.record("LogEventTable has no advice for: \(message)")
        }
        for message in Set(LogEventTable.advice.keys).subtracting(messages).sorted() {
            Issue.record("no log line says: \(message)")
        }
    }

    @Test func thePageIsPrintedFromTheTable() {
        var text = """
            # Log events

            Each line of the log is one event: time, level, message, fields ([form](gateway.md#log-lines)).
            This page lists the events of level `info` and above, by the part of the program that writes them.
            The [runbook](../runbook.md#log-lines) has checks and fixes for warnings and errors.
            `…` stands for a value in the message.

            """
        var room = ""
        for (section, event) in Self.events() {
            if section != room {
                text += "\n## \(section)\n\n| message | level | fields | what to do |\n| --- | --- | --- | --- |\n"
                room = section
            }
            let fields = event.fields.map { "`\($0)`" }.joined(separator: ", ")
            let levels = event.levels.joined(separator: ", ")
            let advice = LogEventTable.advice[event.message] ?? ""
            let section = Self.section(of: event).map { " [Runbook](../runbook.md#\($0))." } ?? ""
            text += "| \(event.message) | \(levels) | \(fields) | \(advice)\(section) |\n"
        }
        if getenv("PATHMIRROR_WRITE_REFERENCE") != nil { SourceFiles.write(text, to: Self.page) }
        #expect(
            SourceFiles.text(Self.page) == text,
            "run: PATHMIRROR_WRITE_REFERENCE=1 make test ROOM=House FILTER=LogEventTests")
    }

    /// Returns the anchor of the runbook's section about an event of level `warning` or `error`.
    private static func section(of event: Event) -> String? {
        guard event.levels.contains(where: { ["warning", "error"].contains($0) }) else { return nil }
        return LogEventSections.anchor(of: event.message)
    }

    @Test func everyWarningHasASectionOfTheRunbook() {
        let headings = LogEventSections.headings(SourceFiles.text("docs/runbook.md"))
        for (_, event) in Self.events() where event.levels.contains(where: { ["warning", "error"].contains($0) }) {
            guard let anchor = Self.section(of: event) else {
                Issue.record("LogEventSections has no section for: \(event.message)")
                continue
            }
            #expect(headings.contains(anchor), "docs/runbook.md has no section #\(anchor)")
        }
    }

    @Test func callsAreFound() {
        let text = #"""
            logger.warning("a is " + "\(b ? "x" : "(") here", [("name", "\(c)"), ("other", d)] + more)
            core.logger.log(isBad ? .error : .notice, e ? "one" : "two")
            logger.info(text)
            dialogue.info("no")
            """#
        #expect(
            LogCall.all(in: text) == [
                LogCall(levels: ["warning"], messages: ["a is … here"], fields: ["name", "other"]),
                LogCall(levels: ["error", "notice"], messages: ["one", "two"], fields: []),
                LogCall(levels: ["info"], messages: [], fields: []),
            ])
    }
}
