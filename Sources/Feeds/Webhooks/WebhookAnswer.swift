internal import HTTPClient
import JSONText
internal import Runtime

/// Interprets an endpoint's answer to a request with messages. Pure.
enum WebhookAnswer {
    /// The maximum number of bytes read from an answer.
    static let maxBytes = 256 * 1_024

    /// Returns an outcome for each message, in order.
    ///
    /// - Parameters:
    ///   - isBatch: Whether requests may contain several messages, so that the answer's body may list some as failed.
    ///   - isSequential: Whether messages are in one order, regardless of their keys.
    static func outcomes(
        _ result: Result<ClientResponse, HTTPClientError>, for messages: [SinkMessage], isBatch: Bool,
        isSequential: Bool = false, nowUnixMilliseconds: Milliseconds
    ) -> [SinkOutcome] {
        switch result {
        // The request reached no server, so it is not an attempt.
        case .failure(.notSent): return all(messages, .notSent)
        case .failure(let error):
            return all(messages, .failed(reason: reason(error), retryAfterMilliseconds: nil))
        case .success(let response) where (200...299).contains(response.status):
            return accepted(response, messages, isBatch: isBatch, isSequential)
        case .success(let response) where response.status == 410:
            return all(messages, .refused(reason: "The endpoint no longer exists: it answered with status 410."))
        case .success(let response):
            let pause = response.header("retry-after").flatMap {
                RetryAfter.milliseconds($0, nowUnixMilliseconds: nowUnixMilliseconds)
            }
            let isRedirect = (300...399).contains(response.status)
            let reason =
                isRedirect
                ? "The endpoint answered with status \(response.status); only 307 and 308 are followed."
                : "The endpoint answered with status \(response.status)."
            return all(messages, .failed(reason: reason, retryAfterMilliseconds: pause))
        }
    }

    private static func reason(_ error: HTTPClientError) -> String {
        // The HTTP client does not know the option that configures exceptions.
        guard case .addressNotAllowed(let host) = error else { return error.description }
        return "\(host) has no public address, and is not an allowed address (--webhook-allow)."
    }

    private static func all(_ messages: [SinkMessage], _ outcome: SinkOutcome) -> [SinkOutcome] {
        messages.map { _ in outcome }
    }

    private static func accepted(
        _ response: ClientResponse, _ messages: [SinkMessage], isBatch: Bool, _ isSequential: Bool
    ) -> [SinkOutcome] {
        if response.isTruncated {
            // For a single message, the status is sufficient.
            guard isBatch else { return all(messages, .delivered) }
            let reason =
                "The endpoint's answer is longer than \(maxBytes) bytes, so the failed messages are unknown."
            return all(messages, .failed(reason: reason, retryAfterMilliseconds: nil))
        }
        let failed: Set<String>
        switch FailedMessages.read(
            response.body, contentType: response.header("content-type"), sent: Set(messages.map(\.id)))
        {
        case .named(let ids): failed = ids
        case .unreadable(let reason):
            guard isBatch else { return all(messages, .delivered) }
            let sentence = "The endpoint's answer \(reason), so the failed messages are unknown."
            return all(messages, .failed(reason: sentence, retryAfterMilliseconds: nil))
        }
        // Messages of the same key after a failed one are delivered again after it, to preserve the order of the key.
        var failedKeys: Set<String> = []
        return messages.map { message in
            if failed.contains(message.id) {
                failedKeys.insert(isSequential ? "" : message.key)
                return .failed(reason: "The endpoint named the message as failed.", retryAfterMilliseconds: nil)
            }
            guard failedKeys.contains(isSequential ? "" : message.key) else { return .delivered }
            return .notSent
        }
    }
}

/// The header `Retry-After`: seconds, or a date in one of the three formats of HTTP.
enum RetryAfter {
    /// The longest pause that an endpoint can request.
    static let mostMilliseconds: Milliseconds = 3_600_000

    /// Returns the pause from now, or nil if the text is invalid or the time has passed.
    static func milliseconds(_ text: String, nowUnixMilliseconds: Milliseconds) -> Milliseconds? {
        let wanted: Milliseconds
        if !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            // A number with too many digits exceeds the maximum.
            wanted = Int64(text).map { $0 > mostMilliseconds ? mostMilliseconds : $0 * 1_000 } ?? mostMilliseconds
        } else if let seconds = unixSeconds(text) {
            wanted = seconds * 1_000 - nowUnixMilliseconds
        } else {
            return nil
        }
        return wanted > 0 ? min(wanted, mostMilliseconds) : nil
    }

    /// Parses `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` and `Sun Nov 6 08:49:37 1994`. Returns
    /// seconds since 1970, or nil.
    static func unixSeconds(_ text: String) -> Int64? {
        guard text.utf8.count <= 40 else { return nil }
        var parts = text.split { " ,-:".contains($0) }
        if parts.count == 8, parts[7] == "GMT" {
            parts.removeLast()
        } else if parts.count == 7 {
            // The `asctime` format of C: the day follows the month, and the year is at the end.
            parts = [parts[0], parts[2], parts[1], parts[6], parts[3], parts[4], parts[5]]
        } else {
            return nil
        }
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        guard let month = months.firstIndex(of: String(parts[2])), let day = number(parts[1], 1...31),
            var year = number(parts[3], 0...9_999), let hour = number(parts[4], 0...23),
            let minute = number(parts[5], 0...59), let second = number(parts[6], 0...60)
        else { return nil }
        if parts[3].count == 2 { year += year < 70 ? 2_000 : 1_900 }
        guard year >= 1_970 else { return nil }
        return days(year, month + 1, day) * 86_400 + hour * 3_600 + minute * 60 + second
    }

    private static func number(_ text: Substring, _ range: ClosedRange<Int64>) -> Int64? {
        guard text.utf8.count <= 4, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int64(text),
            range.contains(number)
        else { return nil }
        return number
    }

    /// Returns the number of days from 1970-01-01 to a day of the Gregorian calendar.
    private static func days(_ year: Int64, _ month: Int, _ day: Int64) -> Int64 {
        // Years begin in March here, so that the leap day is a year's last day.
        let shifted = month > 2 ? year : year - 1
        let monthFromMarch = Int64((month + 9) % 12)
        let dayOfYear = (153 * monthFromMarch + 2) / 5 + day - 1
        return shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + dayOfYear - 719_468
    }
}

/// The messages of a batch that an endpoint lists as failed in the body of a successful response. Pure.
///
/// A receiver without support for batches may answer with any text, or with JSON of its own; that means success. A body that is or
/// looks like JSON must be understood: if a list of failed messages were taken for success, the messages would be lost.
enum FailedMessages: Equatable {
    /// The listed ids. Empty if there is no list.
    case named(Set<String>)
    /// The problem with the body. Contains none of its content, which may be confidential.
    case unreadable(reason: String)

    /// - Parameters:
    ///   - contentType: The response's content type, if it has one.
    ///   - sent: The ids of the messages in the request.
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
            return .unreadable(reason: "is not JSON (line \(error.position.line), column \(error.position.column))")
        }
    }

    private static func list(in value: SourceValue, _ sent: Set<String>) -> FailedMessages {
        switch value.kind {
        case .object(let members):
            guard let list = members.first(where: { $0.key == "failed" })?.value else { return .named([]) }
            return ids(list, sent)
        // A list without an object around it may be a list of failed messages.
        case .array(let elements) where !elements.isEmpty: return .unreadable(reason: "is a list instead of an object")
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

    /// Returns whether a media type is JSON: `application/json`, `text/json`, or `…+json`.
    private static func isJSON(_ contentType: String?) -> Bool {
        guard let type = contentType?.split(separator: ";", maxSplits: 1).first?.lowercased() else { return false }
        let bare = type.filter { $0 != " " && $0 != "\t" }
        return bare.hasSuffix("/json") || bare.hasSuffix("+json")
    }
}
