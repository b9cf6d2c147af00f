/// Holds a value that must not be shown: printing, dumping or interpolating it produces a fixed text.
public struct Secret<Value: Sendable>: Sendable, CustomStringConvertible, CustomDebugStringConvertible,
    CustomReflectable
{
    private let value: Value

    public init(_ value: Value) { self.value = value }

    /// Returns the secret itself. The name is conspicuous for reviews.
    public func revealed() -> Value { value }

    public var description: String { "****" }
    public var debugDescription: String { "****" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
