/// How large a part of a namespace may be that is read on its own while the whole is being loaded. What is larger waits for that.
public struct PartLimits: Sendable {
    /// Rows of storage; 0: no part is read on its own.
    public var rows = 20_000
    /// Bytes of paths and values.
    public var bytes = 8 << 20

    public init() {}
}
