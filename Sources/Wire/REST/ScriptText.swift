/// JSON that browsers receive as a script.
public enum ScriptText {
    /// Makes JSON safe in a script, also between `<script>` and `</script>`: U+2028 and U+2029, which end lines in old
    /// scripts, become escapes, and `</` becomes `<\/`. The value stays the same.
    public static func escaped(_ json: [UInt8]) -> [UInt8] {
        guard json.contains(where: { $0 == 0xE2 || $0 == UInt8(ascii: "<") }) else { return json }
        var safe: [UInt8] = []
        safe.reserveCapacity(json.count + 16)
        var index = 0
        while index < json.count {
            let rest = json[index...].prefix(3)
            if rest.elementsEqual([0xE2, 0x80, 0xA8]) || rest.elementsEqual([0xE2, 0x80, 0xA9]) {
                safe.append(contentsOf: rest.last == 0xA8 ? "\\u2028".utf8 : "\\u2029".utf8)
                index += 3
            } else if rest.starts(with: "</".utf8) {
                safe.append(contentsOf: "<\\/".utf8)
                index += 2
            } else {
                safe.append(json[index])
                index += 1
            }
        }
        return safe
    }
}
