import Testing
import Tree

/// Checks that the parser for data and the JSON check, which are implemented separately, agree on any bytes.
struct MutatedJSONProperties {
    private static let seeds = [
        #"{"b":{"c":[1,2,{"d":null}]},"a":{},"10":1,"9":2,"-1":3,"007":4}"#,
        #"{"a":{".value":true},"b":1,".priority":1.5}"#, #"{"n":{".sv":{"increment":-2.5}},"t":{".sv":"timestamp"}}"#,
        #"["\u00e9\ud83d\ude00\n\\\"\/",-0.0,1e308,9223372036854775807,true,false,null]"#, "\r\n\t [ 1 ,\n 2 ] \n",
        #"{"é😀":"～","x":[[[[1]]]]}"#,
    ].map { Array($0.utf8) }
    private static let pieces = [
        "{", "}", "[", "]", "\"", ":", ",", "\\", "\\u", "\\ud800", "\\ude00", "null", "tru", "-", "0", "1e", ".5", " ",
        "\n", "é", "\u{FEFF}", ".value", ".sv", "/",
    ].map { Array($0.utf8) }

    @Test(arguments: 1..<13 as Range<UInt64>)
    func `what one takes the other takes`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var accepted = 0
        for _ in 0..<4_000 {
            var bytes = random.pick(Self.seeds)
            for _ in 0...random.below(3) {
                let offset = random.below(bytes.count + 1)
                switch random.below(5) {
                case 0 where offset < bytes.count: bytes[offset] = UInt8(random.below(256))
                case 1 where offset < bytes.count: bytes.remove(at: offset)
                case 2: bytes.removeSubrange(offset...)
                default: bytes.insert(contentsOf: random.pick(Self.pieces), at: offset)
                }
            }
            let isJSON = RawJSON(bytes).isJSON
            let shown = String(decoding: bytes, as: UTF8.self)
            guard let error = parseError(bytes) else {
                accepted += 1
                #expect(isJSON, "\(shown)")
                continue
            }
            // Valid JSON is refused only for its content, or for an unpaired surrogate.
            if isJSON { #expect(error.kind != .syntax || error.reason.contains("surrogate"), "\(shown): \(error)") }
            #expect(error.line >= 1 && error.column >= 1 && error.column <= bytes.count + 1)
        }
        #expect(accepted > 100)
    }
}
