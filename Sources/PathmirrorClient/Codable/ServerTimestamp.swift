public import Foundation

/// A date of a Codable type that the server fills in: nil is written as the server's time, and read back it is a date to the
/// millisecond.
///
/// ```swift
/// struct Post: Codable {
///     var text: String
///     @ServerTimestamp var created: Date?
/// }
/// ```
@propertyWrapper
public struct ServerTimestamp: Codable, Equatable, Hashable, Sendable {
    /// Nil to have the server's time written.
    public var wrappedValue: Date?

    /// - Parameter value: nil to have the server's time written.
    public init(wrappedValue value: Date?) { wrappedValue = value }

    /// Reads milliseconds since 1970.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard !container.decodeNil() else {
            wrappedValue = nil
            return
        }
        wrappedValue = Date(timeIntervalSince1970: Double(try container.decode(Int64.self)) / 1000)
    }

    /// Writes milliseconds since 1970, or the place-holder for the server's time.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        if let wrappedValue {
            try container.encode(Int64((wrappedValue.timeIntervalSince1970 * 1000).rounded()))
        } else {
            try container.encode([".sv": "timestamp"])
        }
    }
}

extension KeyedDecodingContainer {
    /// A missing timestamp is nil, as a missing optional property is.
    public func decode(_ type: ServerTimestamp.Type, forKey key: Key) throws -> ServerTimestamp {
        try decodeIfPresent(type, forKey: key) ?? ServerTimestamp(wrappedValue: nil)
    }
}
