/// The query of a realtime client's request (reference: rtdb-protocol 1.1 and 1.8). Read leniently: clients don't encode
/// what they send.
public struct RealtimeParameters: Sendable, Equatable {
    private let values: [String: String]

    /// Reads the part of a request target after `?`; nil is none.
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

    /// What a client sends when it connects.
    ///
    /// - Parameters:
    ///   - lastSession: the id of the session that the client had before, which the server then ends.
    public init(namespace: String?, lastSession: String? = nil) {
        var values = ["v": "5"]
        values["ns"] = namespace
        values["ls"] = lastSession
        self.values = values
    }

    /// The part of the URL after `?`, in the order of the names; `init` reads it back.
    public var text: String {
        values.sorted { $0.key < $1.key }.map { pair in
            "\(pair.key)=\(PercentEncoding.encode(pair.value.utf8))"
        }.joined(separator: "&")
    }

    public subscript(_ name: String) -> String? { values[name] }

    /// The wire version; 5 is the only one there is.
    public var version: String? { values["v"] }
    public var namespace: String? { values["ns"] }
    /// The session that the client had before.
    public var lastSession: String? { nonEmpty("ls") }
    /// The long-polling session that a WebSocket is to replace.
    public var pollingSession: String? { nonEmpty("s") }

    /// Whether the client asks for the gateway's extension, in a version that this one speaks.
    public var asksForExtension: Bool { values[Self.extensionName] == "\(Self.extensionVersion)" }

    /// The name by which the gateway's extension is asked for, and greeted with.
    public static let extensionName = "pm"
    /// Its version.
    public static let extensionVersion: Int64 = 1

    private func nonEmpty(_ name: String) -> String? {
        guard let value = values[name], !value.isEmpty else { return nil }
        return value
    }
}
