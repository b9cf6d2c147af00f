public import Foundation

/// A date in a Codable type that the server fills in. Nil is written as the server's time; reading returns a date
/// with millisecond precision.
///
/// ```swift
/// struct Post: Codable {
///     var text: String
///     @ServerTimestamp var created: Date?
/// }
/// ```
@propertyWrapper
public struct ServerTimestamp: Codable, Equatable, Hashable, Sendable {
    /// The date, or nil to write the server's time.
    public var wrappedValue: Date?

    /// - Parameter value: The date, or nil to write the server's time.
    public init(wrappedValue value: Date?) { wrappedValue = value }

    /// Decodes milliseconds since 1970.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard !container.decodeNil() else {
            wrappedValue = nil
            return
        }
        wrappedValue = Date(timeIntervalSince1970: Double(try container.decode(Int64.self)) / 1000)
    }

    /// Encodes milliseconds since 1970, or the placeholder for the server's time.
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
    /// Decodes a missing timestamp as nil, like a missing optional property.
    public func decode(_ type: ServerTimestamp.Type, forKey key: Key) throws -> ServerTimestamp {
        try decodeIfPresent(type, forKey: key) ?? ServerTimestamp(wrappedValue: nil)
    }
}
