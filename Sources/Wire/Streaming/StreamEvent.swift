public import Tree

/// Server-sent events as the REST streaming protocol frames them: `event:`, one line of `data:`, a blank line (reference:
/// rtdb-protocol 8). An `id:` line stands between the two for clients that ask for ids: others may read line by line.
public enum StreamEvent {
    /// Encodes a `put` or a `patch`.
    ///
    /// - Parameter id: the id with which a client resumes after this event; nil leaves out the line.
    public static func encode(_ event: ChangeEvent, id: String?, form: JSONForm) -> [UInt8] {
        var writer: JSONWriter
        switch event {
        case .put(let path, let value):
            writer = JSONWriter(form: form, reserving: min(96 + value.rowCount * 24, 1 << 20))
            begin(&writer, path)
            writer.write(value)
        case .patch(let path, let changes):
            writer = JSONWriter(form: form, reserving: 256)
            begin(&writer, path)
            writer.beginObject()
            for (index, change) in changes.enumerated() {
                writer.writeKey(String(change.path.description.unicodeScalars.dropFirst()), isFirst: index == 0)
                writer.write(change.value)
            }
            writer.endObject()
        }
        writer.endObject()
        return frame(name(event), id: id, data: writer.bytes)
    }

    private static func name(_ event: ChangeEvent) -> StaticString {
        switch event {
        case .put: "put"
        case .patch: "patch"
        }
    }

    private static func begin(_ writer: inout JSONWriter, _ path: Path) {
        writer.beginObject()
        writer.writeKey("path", isFirst: true)
        writer.writeString(path.description)
        writer.writeKey("data", isFirst: false)
    }

    public static let keepAlive = frame("keep-alive", id: nil, data: Array("null".utf8))

    /// The client may not read here any more; the server closes after it.
    public static let cancel = frame("cancel", id: nil, data: Array("null".utf8))

    /// The client's credential has ended; the server closes after it. The data is bare text, not JSON: SDKs compare it
    /// with this text and then connect again.
    public static let authRevoked = frame("auth_revoked", id: nil, data: Array("credential is no longer valid".utf8))

    private static func frame(_ name: StaticString, id: String?, data: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(data.count + 64)
        bytes.append(contentsOf: "event: ".utf8)
        bytes.append(contentsOf: UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
        if let id { bytes.append(contentsOf: "\nid: \(id)".utf8) }
        bytes.append(contentsOf: "\ndata: ".utf8)
        bytes.append(contentsOf: data)
        bytes.append(contentsOf: "\n\n".utf8)
        return bytes
    }
}
