import Testing
import Tree
import Wire

@testable import ClientCore

/// One case of the sync point specification: steps, and the events that each of them raises.
///
/// The format is the JSON file that the SDKs of all languages share, with one more member: `listens` lists the requests
/// that a step sends to the server (`+/path`, `-/path`, followed by ` tagged` for a filtered query).
struct SpecificationCase {
    struct Step {
        let type: String
        let path: Path
        let spec: QuerySpec
        let tag: Int64?
        let data: RawJSON?
        let callback: Int64?
        let write: Int64?
        let reverts: Bool
        let isVisible: Bool
        let events: [Event]
        let listens: [String]?
    }

    struct Event: CustomStringConvertible {
        let path: Path
        let type: String
        let name: String?
        let previous: String?
        let data: Node

        var description: String {
            let text = String(decoding: JSONWriter.encode(data, form: .export), as: UTF8.self)
            return "\(type) \(path) \(name ?? "") after \(previous ?? "none"): \(text)"
        }

        /// Whether two events are equal. The preceding key is compared only for existing children.
        func matches(_ other: Event) -> Bool {
            guard path == other.path, type == other.type, data.hash == other.data.hash else { return false }
            if type == "value" { return true }
            return name == other.name && (type == "child_removed" || previous == other.previous)
        }
    }

    let name: String
    let steps: [Step]

    /// - Parameter base: the path at which the case is run.
    init(_ json: RawJSON, at base: Path) throws {
        let members = Self.dictionary(json)
        name = try #require(members["name"]?.string)
        steps = try #require(members["steps"]?.elements).map { try Self.step(Self.dictionary($0), base) }
    }

    static func all(in text: [UInt8], at base: Path) throws -> [SpecificationCase] {
        try #require(RawJSON(text).elements).map { try SpecificationCase($0, at: base) }
    }

    private static func dictionary(_ json: RawJSON?) -> [String: RawJSON] {
        Dictionary((json?.members ?? []).map { ($0.key, $0.value) }, uniquingKeysWith: { $1 })
    }

    private static func step(_ members: [String: RawJSON], _ base: Path) throws -> Step {
        let path = base.appending(Path(splitting: members["path"]?.string ?? ""))
        let params = dictionary(members["params"])
        let events = try (members["events"]?.elements ?? []).map { event in
            let parts = dictionary(event)
            return Event(
                path: base.appending(Path(splitting: parts["path"]?.string ?? "")),
                type: try #require(parts["type"]?.string), name: parts["name"]?.string,
                previous: parts["prevName"]?.string, data: try node(parts["data"]))
        }
        return Step(
            type: try #require(members["type"]?.string), path: path,
            spec: QuerySpec(path: path, query: try query(params)),
            tag: members["tag"]?.integer ?? params["tag"]?.integer, data: members["data"],
            callback: members["callbackId"]?.integer, write: members["writeId"]?.integer,
            reverts: members["revert"]?.bool ?? false, isVisible: members["visible"]?.bool ?? true, events: events,
            listens: members["listens"]?.elements?.compactMap(\.string))
    }

    static func node(_ json: RawJSON?) throws -> Node {
        guard let json, !json.isNull else { return .null }
        return try JSONParser.parse(json.text).node
    }

    /// Returns the changes of an update, whose keys may be paths.
    static func changes(_ json: RawJSON?) throws -> [Change] {
        try (json?.members ?? []).map { Change(path: Path(splitting: $0.key), value: try node($0.value)) }
    }

    private static func query(_ params: [String: RawJSON]) throws -> Query {
        var query = Query()
        if let child = params["orderBy"]?.string { query.index = .child(Path(splitting: child)) }
        if params["orderByKey"] != nil { query.index = .key }
        if let start = params["startAt"] ?? params["equalTo"] { query.start = try bound(start) }
        if let end = params["endAt"] ?? params["equalTo"] { query.end = try bound(end) }
        if let start = params["startAfter"] { query.start = try bound(start, isInclusive: false) }
        if let end = params["endBefore"] { query.end = try bound(end, isInclusive: false) }
        if let count = params["limitToFirst"]?.integer { query.limit = .first(Int(count)) }
        if let count = params["limitToLast"]?.integer { query.limit = .last(Int(count)) }
        return query
    }

    private static func bound(_ json: RawJSON, isInclusive: Bool = true) throws -> Query.Bound {
        let parts = dictionary(json)
        return Query.Bound(
            value: .init(try node(parts["index"])), key: parts["name"]?.string.map(Key.init), isInclusive: isInclusive)
    }
}
