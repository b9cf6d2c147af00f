internal import ClientCore
public import Foundation
internal import Tree

extension Database {
    /// Encodes Swift values as values of the database. Not Sendable.
    public final class Encoder {
        /// The encoding of dates. By default, seconds since 2001, as in Foundation.
        public var dateEncodingStrategy: JSONEncoder.DateEncodingStrategy = .deferredToDate
        /// The encoding of `Data`. By default, base64.
        public var dataEncodingStrategy: JSONEncoder.DataEncodingStrategy = .base64
        /// The encoding of infinity and NaN. By default an error, because the database has no such numbers.
        public var nonConformingFloatEncodingStrategy: JSONEncoder.NonConformingFloatEncodingStrategy = .throw
        /// The conversion of property names to keys.
        public var keyEncodingStrategy: JSONEncoder.KeyEncodingStrategy = .useDefaultKeys
        /// Contextual information for the values' own encoding.
        public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

        /// Creates an encoder with the defaults.
        public init() {}

        /// Returns the value as Foundation types, which `setValue(_:)` accepts.
        ///
        /// - Throws: `EncodingError`, also for values that the database cannot store.
        public func encode<Value: Encodable>(_ value: Value) throws -> Any { try node(of: value).foundationExport() }

        func node<Value: Encodable>(of value: Value) throws -> Node {
            let encoder = JSONEncoder()
            encoder.dateEncodingStrategy = dateEncodingStrategy
            encoder.dataEncodingStrategy = dataEncodingStrategy
            encoder.nonConformingFloatEncodingStrategy = nonConformingFloatEncodingStrategy
            encoder.keyEncodingStrategy = keyEncodingStrategy
            encoder.userInfo = userInfo
            let text = try encoder.encode(value)
            do {
                return try JSONParser.parse(Array(text)).node
            } catch {
                let context = EncodingError.Context(
                    codingPath: [], debugDescription: "The database can't store the value: \(error.reason)",
                    underlyingError: error)
                throw EncodingError.invalidValue(value, context)
            }
        }
    }

    /// Decodes values of the database to Swift values. Not Sendable.
    public final class Decoder {
        /// The decoding of dates. By default, seconds since 2001, as in Foundation.
        public var dateDecodingStrategy: JSONDecoder.DateDecodingStrategy = .deferredToDate
        /// The decoding of `Data`. By default, base64.
        public var dataDecodingStrategy: JSONDecoder.DataDecodingStrategy = .base64
        /// The decoding of infinity and NaN. By default, no value represents them.
        public var nonConformingFloatDecodingStrategy: JSONDecoder.NonConformingFloatDecodingStrategy = .throw
        /// The conversion of keys to property names.
        public var keyDecodingStrategy: JSONDecoder.KeyDecodingStrategy = .useDefaultKeys
        /// Contextual information for the values' own decoding.
        public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

        /// Creates a decoder with the defaults.
        public init() {}

        /// Returns the value that the Foundation types represent, such as those of `DataSnapshot.value`.
        ///
        /// - Throws: `DecodingError`.
        public func decode<Value: Decodable>(_ type: Value.Type, from structure: Any) throws -> Value {
            do {
                return try decode(type, from: try NodeReader.node(of: structure, at: .root))
            } catch let error as InvalidArgument {
                let context = DecodingError.Context(codingPath: [], debugDescription: error.description)
                throw DecodingError.dataCorrupted(context)
            }
        }

        func decode<Value: Decodable>(_ type: Value.Type, from node: Node) throws -> Value {
            let decoder = JSONDecoder()
            decoder.dateDecodingStrategy = dateDecodingStrategy
            decoder.dataDecodingStrategy = dataDecodingStrategy
            decoder.nonConformingFloatDecodingStrategy = nonConformingFloatDecodingStrategy
            decoder.keyDecodingStrategy = keyDecodingStrategy
            decoder.userInfo = userInfo
            return try decoder.decode(type, from: Data(JSONWriter.encode(node, form: .plain)))
        }
    }
}

extension DataSnapshot {
    /// Returns the value, decoded to a type of the app.
    ///
    /// - Throws: `DecodingError`; `.valueNotFound` if there is no value and the type is not optional.
    public func data<Value: Decodable>(
        as type: Value.Type, decoder: Database.Decoder = Database.Decoder()
    ) throws -> Value {
        try decoder.decode(type, from: node)
    }
}

extension DatabaseReference {
    /// Replaces the value at the path by the encoded value, as `setValue(_:)` does.
    ///
    /// - Parameters:
    ///   - value: The new value.
    ///   - encoder: The encoder of the value.
    ///   - completion: Receives nil when the server has done the write, and otherwise the error. Runs on the callback queue.
    /// - Throws: `EncodingError`, without writing.
    public func setValue<Value: Encodable>(
        from value: Value, encoder: Database.Encoder = Database.Encoder(),
        completion: (@Sendable ((any Error)?) -> Void)? = nil
    ) throws {
        let node = try encoder.node(of: value)
        operate("setValue(from:)", completion.map { completion in { error, _ in completion(error) } }) { report in
            owner.repository.write(.overwrite(node), at: path, report)
        }
    }

    /// Replaces the value at the path by the encoded value, and returns when the server has done the write.
    ///
    /// - Throws: `EncodingError`, without writing; `DatabaseError` if the server has not done the write.
    @discardableResult
    public func setValue<Value: Encodable>(
        from value: Value, encoder: Database.Encoder = Database.Encoder()
    ) async throws -> DatabaseReference {
        let node = try encoder.node(of: value)
        return try await waiting { report in
            operate("setValue(from:)", report) { owner.repository.write(.overwrite(node), at: path, $0) }
        }
    }
}
