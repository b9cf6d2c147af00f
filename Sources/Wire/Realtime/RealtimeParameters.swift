/// The query of a realtime client's request (reference: rtdb-protocol 1.1 and 1.8). The parser is lenient, because
/// clients don't encode their values.
public struct RealtimeParameters: Sendable, Equatable {
    private let values: [String: String]

    /// Parses the part of a request target after `?`; nil stands for no parameters.
    public init(_ text: ArraySlice<UInt8>?) {
        var values: [String: String] = [:]
        for pair in (text ?? []).split(separator: UInt8(ascii: "&")) {
            let equals = pair.firstIndex(of: UInt8(ascii: "=")) ?? pair.endIndex
            let value = equals < pair.endIndex ? pair[(equals + 1)...] : []
            values[String(decoding: pair[..<equals], as: UTF8.self)] = String(
                decoding: PercentEncoding.decode(value) ?? Array(value), as: UTF8.self)
        }
        self.values = values
    }

    /// Creates the parameters with which a client connects.
    ///
    /// - Parameters:
    ///   - lastSession: the id of the client's previous session, which the server then ends.
    public init(namespace: String?, lastSession: String? = nil) {
        var values = ["v": "5"]
        values["ns"] = namespace
        values["ls"] = lastSession
        self.values = values
    }

    /// The part of the URL after `?`, in the order of the names; `init` parses it.
    public var text: String {
        values.sorted { $0.key < $1.key }.map { pair in
            "\(pair.key)=\(PercentEncoding.encode(pair.value.utf8))"
        }.joined(separator: "&")
    }

    public subscript(_ name: String) -> String? { values[name] }

    /// The wire version; 5 is the only one.
    public var version: String? { values["v"] }
    public var namespace: String? { values["ns"] }
    /// The client's previous session.
    public var lastSession: String? { nonEmpty("ls") }
    /// The long-polling session that a WebSocket is about to replace.
    public var pollingSession: String? { nonEmpty("s") }

    /// Whether the client requests the gateway's extension, in a version that this gateway supports.
    public var asksForExtension: Bool { values[Self.extensionName] == "\(Self.extensionVersion)" }

    /// The name of the gateway's extension, in requests and greetings.
    public static let extensionName = "pm"
    /// The version of the extension.
    public static let extensionVersion: Int64 = 1

    private func nonEmpty(_ name: String) -> String? {
        guard let value = values[name], !value.isEmpty else { return nil }
        return value
    }
}
