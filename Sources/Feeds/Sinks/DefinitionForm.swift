import JSONText
import Runtime
import Tree

/// A form of a feed's definition as JSON. The forms differ in durations and secrets.
public enum DefinitionForm: Sendable {
    /// The form of requests, files and answers: `"ack_deadline": "30s"`. Secrets are written as `(set)`.
    case shown
    /// The form in the database: `"ack_deadline_ms": 30000`, which gateways of earlier versions read as well, and with secrets.
    case stored

    /// The name of a member that is a duration, such as `ack_deadline`.
    func member(_ name: String) -> String { self == .stored ? "\(name)_ms" : name }

    /// Reads a duration; nil where the value is none, or is out of range.
    func milliseconds(_ value: SourceValue, in range: ClosedRange<Milliseconds>) -> Milliseconds? {
        let span: Milliseconds?
        switch (self, value.kind) {
        case (.stored, .number(let text)): span = Milliseconds(text)
        case (.shown, .string(let text)): span = TimeSpan.milliseconds(text)
        default: span = nil
        }
        return span.flatMap { range.contains($0) ? $0 : nil }
    }

    /// What `milliseconds(_:in:)` takes, as a sentence for people.
    func wanted(in range: ClosedRange<Milliseconds>) -> String {
        switch self {
        case .stored: "this should be a whole number from \(range.lowerBound) to \(range.upperBound)"
        case .shown:
            "this should be a duration such as \"30s\", from \(TimeSpan.text(range.lowerBound)) to \(TimeSpan.text(range.upperBound))"
        }
    }
}

extension JSONWriter {
    /// Writes a member of an object that is a duration.
    mutating func writeDuration(_ name: String, _ time: Milliseconds, as form: DefinitionForm, isFirst: Bool = false) {
        writeKey(form.member(name), isFirst: isFirst)
        switch form {
        case .stored: writeInteger(time)
        case .shown: writeString(TimeSpan.text(time))
        }
    }
}
