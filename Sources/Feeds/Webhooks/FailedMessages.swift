import JSONText

/// Which messages of a batch an endpoint names as failed, by the body of a successful response. Pure.
///
/// A receiver that does not know batches answers with any text, or with JSON of its own: that means success. JSON, or what
/// looks like JSON, must be understood: a list of failed messages that was misread as success would lose them.
enum FailedMessages: Equatable {
    /// The ids that the body names; none where there is no list, or an empty one.
    case named(Set<String>)
    /// What is wrong with the body. Holds nothing of its content, which may be confidential.
    case unreadable(reason: String)

    /// - Parameters:
    ///   - contentType: the response's, if it has one.
    ///   - sent: the ids of the messages in the request.
    static func read(_ body: [UInt8], contentType: String?, sent: Set<String>) -> FailedMessages {
        let isBlank = { (byte: UInt8) in [0x20, 0x09, 0x0A, 0x0D].contains(byte) }
        let text = body.drop(while: isBlank)
        guard let first = text.first else { return .named([]) }
        if byteOrderMarks.contains(where: { text.starts(with: $0) }) {
            return .unreadable(reason: "begins with a byte-order mark")
        }
        guard first == UInt8(ascii: "{") || first == UInt8(ascii: "[") || isJSON(contentType) else {
            return .named([])
        }
        do throws(SourceTextError) {
            return list(in: try SourceText.read(body), sent)
        } catch {
            return .unreadable(reason: "is not JSON (line \(error.place.line), column \(error.place.column))")
        }
    }

    private static func list(in value: SourceValue, _ sent: Set<String>) -> FailedMessages {
        switch value.kind {
        case .object(let members):
            guard let list = members.first(where: { $0.key == "failed" })?.value else { return .named([]) }
            return ids(list, sent)
        // A list without its object may be one of failed messages.
        case .array(let elements) where !elements.isEmpty: return .unreadable(reason: "is a list, and not an object")
        case .array, .null, .bool, .number, .string: return .named([])
        }
    }

    private static func ids(_ list: SourceValue, _ sent: Set<String>) -> FailedMessages {
        if case .null = list.kind { return .named([]) }
        guard case .array(let elements) = list.kind else {
            return .unreadable(reason: "has \(list.kindName) as \"failed\", which must be a list of ids")
        }
        var ids: Set<String> = []
        for element in elements {
            guard case .string(let id) = element.kind else {
                return .unreadable(reason: "has \(element.kindName) in \"failed\", which must be a list of ids")
            }
            guard sent.contains(id) else {
                return .unreadable(reason: "names a message in \"failed\" that is not in the request")
            }
            ids.insert(id)
        }
        return .named(ids)
    }

    private static let byteOrderMarks: [[UInt8]] = [[0xEF, 0xBB, 0xBF], [0xFE, 0xFF], [0xFF, 0xFE]]

    /// Whether a media type is one of JSON: `application/json`, `text/json`, or `…+json`.
    private static func isJSON(_ contentType: String?) -> Bool {
        guard let type = contentType?.split(separator: ";", maxSplits: 1).first?.lowercased() else { return false }
        let bare = type.filter { $0 != " " && $0 != "\t" }
        return bare.hasSuffix("/json") || bare.hasSuffix("+json")
    }
}
