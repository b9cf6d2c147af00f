public import Tree

/// The path part of a REST URL. As in Firebase and in the URLs that SDKs parse, `+` stands for a space and `%2B` for a
/// plus.
public enum RequestPath {
    /// Parses `/a/b.json` or `/a/b/.json`, still percent-encoded. Each part is decoded separately, so that an encoded
    /// slash does not split a key; it is then refused like every other character that keys can't contain.
    public static func parse(_ target: ArraySlice<UInt8>) throws(RESTError) -> Path {
        let suffix: StaticString = ".json"
        guard target.count >= suffix.utf8CodeUnitCount,
            target.suffix(suffix.utf8CodeUnitCount)
                .elementsEqual(UnsafeBufferPointer(start: suffix.utf8Start, count: suffix.utf8CodeUnitCount))
        else { throw .appendJSON }
        var keys: [Key] = []
        var rest = target.dropLast(suffix.utf8CodeUnitCount)
        keys.reserveCapacity(rest.reduce(1) { $1 == UInt8(ascii: "/") ? $0 + 1 : $0 })
        while !rest.isEmpty {
            let end = rest.firstIndex(of: UInt8(ascii: "/")) ?? rest.endIndex
            if end > rest.startIndex { keys.append(try key(rest[..<end])) }
            rest = rest[end...].dropFirst()
        }
        for (index, key) in keys.enumerated() {
            if key == .priority, index == keys.count - 1 { continue }
            guard KeyRules.violation(in: key) == nil else { throw .invalidPath }
        }
        let depth = keys.last == .priority ? keys.count - 1 : keys.count
        guard depth <= KeyRules.maxDepth else {
            throw RESTError(400, "Invalid path: more than \(KeyRules.maxDepth) levels deep")
        }
        return Path(keys)
    }

    private static func key(_ part: ArraySlice<UInt8>) throws(RESTError) -> Key {
        var isPlain = true
        for byte in part where byte == UInt8(ascii: "%") || byte == UInt8(ascii: "+") || byte >= 0x80 {
            isPlain = false
            break
        }
        // Most keys need neither decoding nor validation.
        if isPlain { return Key(String(decoding: part, as: UTF8.self)) }
        guard let bytes = PercentEncoding.decode(part, plusIsSpace: true) else { throw .invalidPath }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw .invalidPath }
        return Key(text)
    }
}

extension RequestPath {
    /// Returns the path part of a URL: `/a/b.json`, percent-encoded; the root is `/.json`. `parse` parses it.
    public static func text(_ path: Path) -> String {
        var text = ""
        for key in path.keys {
            text += "/"
            text += PercentEncoding.encode(key.text.utf8)
        }
        return (path.isRoot ? "/" : text) + ".json"
    }
}
