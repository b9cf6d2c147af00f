/// One parameter value, for writing parameters as a literal: `[.int8(7), .text("a"), .null(.bytea)]`.
/// Hot paths append to ``PostgresParameters`` instead, which builds no enum.
public enum PostgresValue: Sendable {
    case null(PostgresType)
    case bool(Bool)
    case int4(Int32)
    case int8(Int64)
    case float8(Double)
    case text(String)
    case textBytes([UInt8])
    case bytea([UInt8])
    case uuid([UInt8])
    case json([UInt8])
    case jsonb([UInt8])
    case array(PostgresArray)
}
