/// Reads the values of rows one after another. Texts of middling length that come again, as ids of users and names do, are one in
/// memory: a text of more than 15 bytes takes four times a short one.
public struct LeafReader: ~Copyable {
    private var texts: KeyCache?
    private var rows = 0

    /// Fewer rows repeat too few texts for the cache to pay for being made.
    private static let leastRowsForCache = 256
    private static let slots = 4_096
    /// Shorter ones are inside their references; longer ones seldom come again.
    private static let lengths = 16...64

    public init() {}

    /// The value of a row's JSON text.
    public mutating func read(_ json: UnsafeRawBufferPointer) throws(JSONError) -> Node {
        rows += 1
        if rows == Self.leastRowsForCache { texts = KeyCache(slots: Self.slots) }
        guard texts != nil, Self.lengths.contains(json.count - 2), json[0] == UInt8(ascii: "\""),
            json[json.count - 1] == UInt8(ascii: "\"")
        else { return try JSONParser.parse(json) }
        let text = UnsafeRawBufferPointer(rebasing: json[1..<(json.count - 1)])
        // With an escape in it, it is not what it stands for.
        for byte in text where byte == UInt8(ascii: "\\") { return try JSONParser.parse(json) }
        return .string(try shared(text, json))
    }

    private mutating func shared(
        _ text: UnsafeRawBufferPointer, _ json: UnsafeRawBufferPointer
    ) throws(JSONError) -> String {
        guard var kept = texts.take() else { return "" }
        let key = try kept.key(of: text.assumingMemoryBound(to: UInt8.self)) { () throws(JSONError) in
            guard case .string(let made) = try JSONParser.parse(json) else { return Key("") }
            return Key(made)
        }
        texts = consume kept
        return key.text
    }
}
