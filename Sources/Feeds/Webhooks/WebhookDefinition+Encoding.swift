public import Tree

extension WebhookDefinition {
    /// Writes the definition as a JSON object, with what was left out filled in.
    public func write(_ writer: inout JSONWriter, as form: DefinitionForm) {
        let showsSecrets = form == .stored
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
        for (key, number) in [("batch", Int64(batch)), ("concurrency", Int64(concurrency))] {
            writer.writeKey(key, isFirst: false)
            writer.writeInteger(number)
        }
        writer.writeDuration("timeout", timeoutMilliseconds, as: form)
        writer.writeDuration("connect_timeout", connectTimeoutMilliseconds, as: form)
        writer.writeKey("format", isFirst: false)
        writer.writeString(format.rawValue)
        writer.endObject()
    }
}
