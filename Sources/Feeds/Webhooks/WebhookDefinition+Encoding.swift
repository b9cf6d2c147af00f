public import Tree

extension WebhookDefinition {
    /// Writes the definition as a JSON object, with what was left out filled in.
    ///
    /// - Parameter showsSecrets: else `(set)` stands for secrets and headers that were given themselves.
    public func write(_ writer: inout JSONWriter, showsSecrets: Bool) {
        writer.beginObject()
        writer.writeKey("url", isFirst: true)
        writer.writeString(url)
        writer.writeKey("secrets", isFirst: false)
        writer.raw("[")
        for (index, secret) in secrets.enumerated() {
            if index > 0 { writer.raw(",") }
            writer.writeString(secret.definitionText(showsSecrets: showsSecrets))
        }
        writer.raw("]")
        writer.writeKey("headers", isFirst: false)
        writer.beginObject()
        for (index, header) in headers.enumerated() {
            writer.writeKey(header.name, isFirst: index == 0)
            writer.writeString(header.value.definitionText(showsSecrets: showsSecrets))
        }
        writer.endObject()
        let numbers = [
            ("batch", Int64(batch)), ("concurrency", Int64(concurrency)), ("timeout_ms", timeoutMilliseconds),
            ("connect_timeout_ms", connectTimeoutMilliseconds),
        ]
        for (key, number) in numbers {
            writer.writeKey(key, isFirst: false)
            writer.writeInteger(number)
        }
        writer.writeKey("format", isFirst: false)
        writer.writeString(format.rawValue)
        writer.endObject()
    }
}
