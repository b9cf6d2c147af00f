internal import ClientCore
public import Foundation
internal import Tree

extension Database {
    /// Encodes Swift values into values of the database. Not Sendable; make one where it is needed.
    public final class Encoder {
        /// How dates are written; by default as seconds since 2001, as Foundation does.
        public var dateEncodingStrategy: JSONEncoder.DateEncodingStrategy = .deferredToDate
        /// How `Data` is written; by default as base64.
        public var dataEncodingStrategy: JSONEncoder.DataEncodingStrategy = .base64
        /// What becomes of infinity and NaN; by default an error, as the database has no such numbers.
        public var nonConformingFloatEncodingStrategy: JSONEncoder.NonConformingFloatEncodingStrategy = .throw
        /// How the names of properties become keys.
        public var keyEncodingStrategy: JSONEncoder.KeyEncodingStrategy = .useDefaultKeys
        /// What the values' own encoding is given.
        public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

        /// An encoder with the defaults.
        public init() {}

        /// The value as Foundation's types, as `setValue(_:)` takes them.
        ///
        /// - Throws: `EncodingError`, also for what the database can't store.
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
                    codingPath: [], debugDescription: "The database can't store it: \(error.reason)",
                    underlyingError: error)
                throw EncodingError.invalidValue(value, context)
            }
        }
    }

    /// Decodes values of the database into Swift values. Not Sendable; make one where it is needed.
    public final class Decoder {
        /// How dates are read; by default as seconds since 2001, as Foundation does.
        public var dateDecodingStrategy: JSONDecoder.DateDecodingStrategy = .deferredToDate
        /// How `Data` is read; by default as base64.
        public var dataDecodingStrategy: JSONDecoder.DataDecodingStrategy = .base64
        /// What stands for infinity and NaN; by default nothing does.
        public var nonConformingFloatDecodingStrategy: JSONDecoder.NonConformingFloatDecodingStrategy = .throw
        /// How keys become the names of properties.
        public var keyDecodingStrategy: JSONDecoder.KeyDecodingStrategy = .useDefaultKeys
        /// What the values' own decoding is given.
        public var userInfo: [CodingUserInfoKey: any Sendable] = [:]

        /// A decoder with the defaults.
        public init() {}

        /// The value that Foundation's types stand for, as `DataSnapshot.value` has them.
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
    /// The value as a type of the app's.
    ///
    /// - Throws: `DecodingError`; `.valueNotFound` where there is nothing and the type is not optional.
    public func data<Value: Decodable>(
        as type: Value.Type, decoder: Database.Decoder = Database.Decoder()
    ) throws -> Value {
        try decoder.decode(type, from: node)
    }
}

extension DatabaseReference {
    /// Replaces what is at the place by an app's own type, as `setValue(_:)` does.
    ///
    /// - Parameters:
    ///   - value: what is to be there.
    ///   - encoder: how it is written.
    ///   - completion: told, on the callback queue, nil when the server has done it, or why it has not.
    /// - Throws: `EncodingError`; nothing is written then.
    public func setValue<Value: Encodable>(
        from value: Value, encoder: Database.Encoder = Database.Encoder(),
        completion: (@Sendable ((any Error)?) -> Void)? = nil
    ) throws {
        let node = try encoder.node(of: value)
        operate("setValue(from:)", completion.map { completion in { error, _ in completion(error) } }) { told in
            owner.repository.write(.overwrite(node), at: path, told)
        }
    }

    /// As `setValue(from:encoder:completion:)`; returns when the server has done it.
    ///
    /// - Throws: `EncodingError`, and nothing is written then; a `DatabaseError` that says why the server has not done it.
    @discardableResult
    public func setValue<Value: Encodable>(
        from value: Value, encoder: Database.Encoder = Database.Encoder()
    ) async throws -> DatabaseReference {
        let node = try encoder.node(of: value)
        return try await waiting { told in
            operate("setValue(from:)", told) { owner.repository.write(.overwrite(node), at: path, $0) }
        }
    }
}
