/// Names of tables, views and indexes that are made of several parts.
enum RelationName {
    /// Joins parts by `_`; where that is too long for PostgreSQL, cuts it, with a hash that tells it from others.
    static func joined(_ parts: [String]) -> String {
        let name = parts.joined(separator: "_")
        guard name.utf8.count > MirrorDefinition.maxNameBytes else { return name }
        var short = ""
        for character in name where short.utf8.count + character.utf8.count <= MirrorDefinition.maxNameBytes - 17 {
            short.append(character)
        }
        return short + "_" + hash(name)
    }

    /// FNV-1a.
    static func hash(_ text: String) -> String {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        return String(hash, radix: 16)
    }
}
