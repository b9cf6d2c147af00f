import Tree

/// Bounds what is stored of a message that failed for the last time, or is set aside. Pure.
enum StoredMessage {
    /// The most bytes of a stored message as JSON.
    static let maxBytes = 1 << 20

    /// A message's JSON, without its attempt. Of a message over `maxBytes` the record is left out, then the old value, then
    /// the value, until it fits; a member `"truncated":true` says so.
    static func bounded(_ json: [UInt8]) -> [UInt8] {
        guard json.count > maxBytes, var members = RawJSON(json).members else { return json }
        for name in ["record", "old", "value"] where size(members) > maxBytes { members.removeAll { $0.key == name } }
        var writer = JSONWriter(form: .plain, reserving: size(members))
        writer.raw("{")
        for member in members where member.key != "truncated" {
            writer.writeString(member.key)
            writer.raw(":")
            writer.append(member.value.text)
            writer.raw(",")
        }
        writer.raw("\"truncated\":true}")
        return writer.bytes
    }

    /// The most bytes of members in JSON.
    private static func size(_ members: [(key: String, value: RawJSON)]) -> Int {
        members.reduce(40) { $0 + $1.key.utf8.count + $1.value.bytes.count + 4 }
    }
}
