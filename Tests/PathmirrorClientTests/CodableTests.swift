import Foundation
import Testing
import Tree

@testable import PathmirrorClient

@Suite struct CodableTests {
    struct Post: Codable, Equatable {
        var title: String
        var stars: Int
        var rating: Double?
        var tags: [String] = []
        var likes: [String: Bool] = [:]
        @ServerTimestamp var created: Date?
    }

    @Test func roundTrip() throws {
        var post = Post(title: "Hi", stars: 3, rating: 4.5, tags: ["a", "b"], likes: ["u": true])
        post.created = Date(timeIntervalSince1970: 123_456_789.123)
        let encoded = try Database.Encoder().encode(post)
        #expect((encoded as? [String: Any])?["created"] as? Int == 123_456_789_123)
        #expect((encoded as? NSDictionary)?["rating"] as? Double == 4.5)
        #expect(try Database.Decoder().decode(Post.self, from: encoded) == post)
    }

    @Test func serverTimestamp() throws {
        let encoded = try Database.Encoder().encode(["t": ServerTimestamp(wrappedValue: nil)])
        #expect(((encoded as? [String: Any])?["t"] as? [String: Any])?[".sv"] as? String == "timestamp")
        let node = try NodeReader.node(of: encoded, at: .root)
        #expect(node.child(Key("t")) == .serverValue(Tree.ServerValue(.timestamp)))
    }

    @Test func snapshotsDecode() throws {
        let ref = TestDatabases.offline().reference()
        let node = try JSONParser.parse(#"{"title":"x","stars":9007199254740993,"tags":["a"],"likes":{"u":true}}"#)
        let post = try DataSnapshot(ref: ref, node: node, index: .key).data(as: Post.self)
        #expect(post.stars == 9_007_199_254_740_993)
        #expect(post.rating == nil)
        let nothing = DataSnapshot(ref: ref, node: .null, index: .key)
        #expect(throws: DecodingError.self) { try nothing.data(as: Post.self) }
        #expect(try nothing.data(as: Post?.self) == nil)
        #expect(try DataSnapshot(ref: ref, node: .int(4), index: .key).data(as: Int.self) == 4)
    }

    @Test func errors() {
        #expect(throws: EncodingError.self) { try Database.Encoder().encode(["a.b": 1]) }
        #expect(throws: EncodingError.self) { try Database.Encoder().encode(Double.nan) }
        #expect(throws: EncodingError.self) {
            try TestDatabases.offline().reference().setValue(from: ["a/b": 1])
        }
    }

    @Test func strategies() throws {
        struct Named: Codable { var firstName: String }
        let encoder = Database.Encoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        let encoded = try encoder.encode(Named(firstName: "Ada"))
        #expect((encoded as? [String: Any])?["first_name"] as? String == "Ada")
        let decoder = Database.Decoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        #expect(try decoder.decode(Named.self, from: encoded).firstName == "Ada")
    }
}
