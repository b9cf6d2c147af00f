internal import HTTPClient
internal import Runtime

/// What an endpoint's answer means for the messages that it was sent. Pure.
enum WebhookAnswer {
    /// More of an answer is not read.
    static let maxBytes = 256 * 1_024

    /// An outcome for each message, in their order.
    ///
    /// - Parameters:
    ///   - isBatch: whether requests hold several messages, of which the answer's body may name some as failed.
    ///   - isOneLane: messages are in order whatever their keys.
    static func outcomes(
        _ result: Result<ClientResponse, HTTPClientError>, for messages: [SinkMessage], isBatch: Bool,
        isOneLane: Bool = false, nowUnixMilliseconds: Milliseconds
    ) -> [SinkOutcome] {
        switch result {
        // No server has seen it, so it is no attempt.
        case .failure(.notSent): return all(messages, .notSent)
        case .failure(let error):
            return all(messages, .failed(reason: reason(error), retryAfterMilliseconds: nil))
        case .success(let response) where (200...299).contains(response.status):
            return accepted(response, messages, isBatch: isBatch, isOneLane)
        case .success(let response) where response.status == 410:
            return all(messages, .refused(reason: "The endpoint is gone: it answered with status 410."))
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
        // The client doesn't know by which option it is told of exceptions.
        guard case .addressNotAllowed(let host) = error else { return error.description }
        return "\(host) has no public address, and is not among those that are allowed (--webhook-allow)."
    }

    private static func all(_ messages: [SinkMessage], _ outcome: SinkOutcome) -> [SinkOutcome] {
        messages.map { _ in outcome }
    }

    private static func accepted(
        _ response: ClientResponse, _ messages: [SinkMessage], isBatch: Bool, _ isOneLane: Bool
    ) -> [SinkOutcome] {
        if response.isTruncated {
            // For a single message the status says all.
            guard isBatch else { return all(messages, .delivered) }
            let reason =
                "The endpoint's answer is longer than \(maxBytes) bytes, so it can't be seen which messages failed."
            return all(messages, .failed(reason: reason, retryAfterMilliseconds: nil))
        }
        let failed: Set<String>
        switch FailedMessages.read(
            response.body, contentType: response.header("content-type"), sent: Set(messages.map(\.id)))
        {
        case .named(let ids): failed = ids
        case .unreadable(let reason):
            guard isBatch else { return all(messages, .delivered) }
            let sentence = "The endpoint's answer \(reason), so it can't be seen which messages failed."
            return all(messages, .failed(reason: sentence, retryAfterMilliseconds: nil))
        }
        // What comes behind a failed message of the same key is delivered again behind it: the order of a key holds.
        var failedKeys: Set<String> = []
        return messages.map { message in
            if failed.contains(message.id) {
                failedKeys.insert(isOneLane ? "" : message.key)
                return .failed(reason: "The endpoint named the message as failed.", retryAfterMilliseconds: nil)
            }
            guard failedKeys.contains(isOneLane ? "" : message.key) else { return .delivered }
            return .notSent
        }
    }
}
