/// Immutable bytes that many connections send without a copy: encode an event once, `send` it to all its listeners.
public final class SharedBytes: Sendable {
    /// The bytes; at least one where they are to be sent.
    public let bytes: [UInt8]

    public init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// The UTF-8 of a text.
    public convenience init(utf8 text: String) {
        self.init(Array(text.utf8))
    }

    /// Number of bytes.
    public var count: Int { bytes.count }
}
