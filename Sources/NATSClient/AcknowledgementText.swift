import JSONText

/// What JetStream answers to a message: `{"stream":"ORDERS","seq":7}`, with `"duplicate":true` where it had it, or
/// `{"error":{"code":400,"err_code":10060,"description":"…"}}`.
enum AcknowledgementText {
    static func read(_ bytes: [UInt8]) -> Result<NATSAcknowledgement, NATSError> {
        guard case .object(let members)? = (try? SourceText.read(bytes))?.kind else {
            return .failure(.rejected(code: 0, "its answer is not JSON"))
        }
        if let error = value("error", members), case .object(let parts) = error {
            let code = number(value("err_code", parts)) ?? number(value("code", parts)) ?? 0
            return .failure(
                .rejected(code: Int(clamping: code), text(value("description", parts)) ?? "no reason given"))
        }
        guard let stream = text(value("stream", members)), !stream.isEmpty, let seq = number(value("seq", members))
        else {
            return .failure(.rejected(code: 0, "its answer names no stream"))
        }
        var isDuplicate = false
        if case .bool(true)? = value("duplicate", members) { isDuplicate = true }
        return .success(NATSAcknowledgement(stream: stream, sequence: seq, isDuplicate: isDuplicate))
    }

    private static func value(_ key: String, _ members: [SourceValue.Member]) -> SourceValue.Kind? {
        members.first { $0.key == key }?.value.kind
    }

    private static func text(_ value: SourceValue.Kind?) -> String? {
        // Somebody else's words go no further than a line.
        if case .string(let text)? = value { String(text.prefix(300)) } else { nil }
    }

    private static func number(_ value: SourceValue.Kind?) -> UInt64? {
        if case .number(let text)? = value { UInt64(text) } else { nil }
    }
}
