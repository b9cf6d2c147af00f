internal import CRE2

/// A compiled regular expression of the rules language. Immutable; any thread may match with it.
final class Regex: Sendable {
    // The handle is written once and RE2 objects may be matched with from many threads.
    nonisolated(unsafe) private let handle: OpaquePointer
    let programSize: Int
    /// Instructions that may be active at one time: the factor by which a text's length bounds the work.
    let width: Int
    let warnings: [String]

    struct Invalid: Error {
        let message: String
    }

    /// Bytes for the program and its caches. A state of a cache takes some 150 bytes.
    private static func memory(_ size: Int) -> Int64 { max(1 << 20, Int64(size) * 128) }

    init(_ literal: RegexLiteral) throws(Invalid) {
        let parsed: RegexParser.Result
        do { parsed = try RegexParser.parse(literal) } catch { throw Invalid(message: error.message) }
        let translation = RegexTranslation(parsed)
        guard translation.size <= RegexParser.maxSize else { throw Invalid(message: RegexParser.tooLarge.message) }
        var pattern = translation.pattern
        var message = ""
        let compiled = pattern.withUTF8 { text in
            withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
                buffer.initialize(repeating: 0)
                let handle = text.withMemoryRebound(to: CChar.self) { text in
                    pathmirror_re2_compile(
                        text.baseAddress, text.count, Self.memory(translation.size), buffer.baseAddress, 256)
                }
                if handle == nil, let base = buffer.baseAddress { message = String(cString: base) }
                return handle
            }
        }
        guard let compiled else { throw Invalid(message: "invalid regular expression: \(message)") }
        handle = compiled
        programSize = Int(pathmirror_re2_program_size(compiled))
        width = max(8, min(programSize, translation.width))
        warnings = parsed.warnings
    }

    deinit { pathmirror_re2_free(handle) }

    /// True when the pattern is found in the text: anywhere, or where its anchors say.
    func matches(_ text: String) -> Bool {
        let count = text.utf16.count * 2
        return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: count) { buffer in
            var index = 0
            for unit in text.utf16 {
                buffer[index] = UInt8(truncatingIfNeeded: unit >> 8)
                buffer[index + 1] = UInt8(truncatingIfNeeded: unit)
                index += 2
            }
            return buffer.withMemoryRebound(to: CChar.self) {
                pathmirror_re2_matches(handle, $0.baseAddress, count)
            }
        }
    }
}
