internal import CRE2

/// A compiled regular expression of the rules language. Immutable; any thread may match with it.
final class Regex: Sendable {
    // The handle is written once and RE2 objects may be matched with from many threads.
    nonisolated(unsafe) private let handle: OpaquePointer
    /// Instructions: the factor by which a text's length bounds the work.
    let programSize: Int
    let warnings: [String]

    struct Invalid: Error {
        let message: String
    }

    /// Bytes for the program and its caches; larger programs are refused.
    private static let maxMemory: Int64 = 1 << 20

    init(_ literal: RegexLiteral) throws(Invalid) {
        let translation: (pattern: String, warnings: [String])
        do { translation = try RegexPattern.translate(literal.pattern) } catch { throw Invalid(message: error.message) }
        var pattern = translation.pattern
        var message = ""
        let compiled = pattern.withUTF8 { text in
            withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
                buffer.initialize(repeating: 0)
                let handle = text.withMemoryRebound(to: CChar.self) { text in
                    pathmirror_re2_compile(
                        text.baseAddress, text.count, literal.ignoresCase, Self.maxMemory, buffer.baseAddress, 256)
                }
                if handle == nil, let base = buffer.baseAddress { message = String(cString: base) }
                return handle
            }
        }
        guard let compiled else { throw Invalid(message: "invalid regular expression: \(message)") }
        handle = compiled
        programSize = Int(pathmirror_re2_program_size(compiled))
        warnings = translation.warnings
    }

    deinit { pathmirror_re2_free(handle) }

    /// True when the pattern is found anywhere in the text.
    func matches(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { bytes in
            bytes.withMemoryRebound(to: CChar.self) { pathmirror_re2_matches(handle, $0.baseAddress, $0.count) }
        }
    }
}
