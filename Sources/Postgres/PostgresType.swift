/// A PostgreSQL data type, identified by its object identifier (OID). The OIDs of built-in types never change.
public struct PostgresType: Sendable, Hashable {
    public let oid: UInt32

    public init(oid: UInt32) {
        self.oid = oid
    }

    public static let bool = PostgresType(oid: 16)
    public static let bytea = PostgresType(oid: 17)
    public static let int8 = PostgresType(oid: 20)
    public static let int2 = PostgresType(oid: 21)
    public static let int4 = PostgresType(oid: 23)
    public static let text = PostgresType(oid: 25)
    public static let oid = PostgresType(oid: 26)
    public static let json = PostgresType(oid: 114)
    public static let float4 = PostgresType(oid: 700)
    public static let float8 = PostgresType(oid: 701)
    public static let timestamptz = PostgresType(oid: 1184)
    public static let uuid = PostgresType(oid: 2950)
    public static let jsonb = PostgresType(oid: 3802)

    public static let boolArray = PostgresType(oid: 1000)
    public static let byteaArray = PostgresType(oid: 1001)
    public static let int2Array = PostgresType(oid: 1005)
    public static let int4Array = PostgresType(oid: 1007)
    public static let textArray = PostgresType(oid: 1009)
    public static let int8Array = PostgresType(oid: 1016)
    public static let float4Array = PostgresType(oid: 1021)
    public static let float8Array = PostgresType(oid: 1022)
    public static let timestamptzArray = PostgresType(oid: 1185)
    public static let jsonArray = PostgresType(oid: 199)
    public static let uuidArray = PostgresType(oid: 2951)
    public static let jsonbArray = PostgresType(oid: 3807)

    /// The array type with elements of this type, or nil if this module does not know the type.
    public var arrayType: PostgresType? {
        switch self {
        case .bool: .boolArray
        case .bytea: .byteaArray
        case .int2: .int2Array
        case .int4: .int4Array
        case .int8: .int8Array
        case .text: .textArray
        case .float4: .float4Array
        case .float8: .float8Array
        case .timestamptz: .timestamptzArray
        case .json: .jsonArray
        case .jsonb: .jsonbArray
        case .uuid: .uuidArray
        default: nil
        }
    }
}

extension PostgresType: CustomStringConvertible {
    /// The SQL name of a type this module knows, otherwise `oid N`.
    public var description: String {
        switch self {
        case .bool: "bool"
        case .bytea: "bytea"
        case .int8: "int8"
        case .int2: "int2"
        case .int4: "int4"
        case .text: "text"
        case .oid: "oid"
        case .json: "json"
        case .float4: "float4"
        case .float8: "float8"
        case .timestamptz: "timestamptz"
        case .uuid: "uuid"
        case .jsonb: "jsonb"
        case .boolArray: "bool[]"
        case .byteaArray: "bytea[]"
        case .int2Array: "int2[]"
        case .int4Array: "int4[]"
        case .textArray: "text[]"
        case .int8Array: "int8[]"
        case .float4Array: "float4[]"
        case .float8Array: "float8[]"
        case .timestamptzArray: "timestamptz[]"
        case .jsonArray: "json[]"
        case .jsonbArray: "jsonb[]"
        case .uuidArray: "uuid[]"
        default: "oid \(oid)"
        }
    }
}
