internal import CRE2

/// A compiled regular expression of the rules language. Immutable: any thread may match with it.
final class Regex: Sendable {
    // The handle is written once, and any number of threads may match with an RE2 object.
    nonisolated(unsafe) private let handle: OpaquePointer
    let programSize: Int
    /// The maximum number of instructions active at one time. The work is bounded by this number times a text's length.
    let width: Int
    /// Whether RE2's cache has space for all states. Then a text's length alone bounds the work.
    let isLinear: Bool
    /// The cost of compiling and keeping the pattern, in instructions.
    let cost: Int
    /// The maximum size of RE2's cache of states, in bytes.
    let cacheBytes: Int
    let warnings: [String]

    struct Invalid: Error, Equatable {
        let message: String
    }

    /// The number of cache bytes that cost as much as an instruction.
    private static let bytesPerInstruction = 128

    static let tooLargeTogether = Invalid(
        message: "the regular expressions of these rules are too large together")

    /// - Parameter budget: the maximum cost. The cost is subtracted from it; after an error, the work done so far is
    ///   subtracted.
    init(_ literal: RegexLiteral, budget: inout Int) throws(Invalid) {
        guard budget > 0 else { throw Self.tooLargeTogether }
        var work = 0
        let parsed: RegexParser.Result
        do {
            parsed = try RegexParser.parse(literal, work: &work)
        } catch {
            budget -= work
            throw Invalid(message: error.message)
        }
        guard parsed.size <= budget else {
            budget = 0
            throw Self.tooLargeTogether
        }
        let translation = RegexTranslation(parsed)
        // If not all states fit, a larger cache does not help.
        cacheBytes = 64 * translation.size + (translation.stateBytes ?? 8 << 10)
        cost = max(translation.size, parsed.size) + translation.work / 16 + cacheBytes / Self.bytesPerInstruction
        let isAffordable = cost <= budget
        budget = isAffordable ? budget - cost : 0
        guard translation.size <= RegexParser.maxSize else { throw Invalid(message: RegexParser.tooLarge.message) }
        guard isAffordable else { throw Self.tooLargeTogether }
        // RE2 uses a third of the memory for this cache.
        let memory = Int64(3 * cacheBytes + 64 * translation.size)
        var pattern = translation.pattern
        var message = ""
        let compiled = pattern.withUTF8 { text in
            withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
                buffer.initialize(repeating: 0)
                let handle = text.withMemoryRebound(to: CChar.self) { text in
                    pathmirror_re2_compile(
                        text.baseAddress, text.count, memory, buffer.baseAddress, 256)
                }
                if handle == nil, let base = buffer.baseAddress { message = String(cString: base) }
                return handle
            }
        }
        guard let compiled else { throw Invalid(message: "invalid regular expression: \(message)") }
        handle = compiled
        programSize = Int(pathmirror_re2_program_size(compiled))
        width = max(8, min(programSize, translation.width))
        isLinear = translation.stateBytes != nil
        warnings = parsed.warnings
    }

    /// Compiles a single pattern without a budget.
    convenience init(_ literal: RegexLiteral) throws(Invalid) {
        var budget = Int.max
        try self.init(literal, budget: &budget)
    }

    deinit { pathmirror_re2_free(handle) }

    /// Returns the cost of matching a text of this many units, in steps. A step pays for at most some 200 nanoseconds.
    func steps(units: Int) -> Int { 4 + (units * (isLinear ? 8 : 32 * width)) >> 8 }

    /// Whether the text contains the pattern: anywhere, or at the positions that its anchors require.
    func matches(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { bytes in
            // A text has at most as many units as bytes.
            withUnsafeTemporaryAllocation(of: UInt8.self, capacity: bytes.count * 2) { buffer in
                let count = Self.write(bytes, to: buffer)
                return buffer.withMemoryRebound(to: CChar.self) {
                    pathmirror_re2_matches(handle, $0.baseAddress, count)
                }
            }
        }
    }

    /// Writes UTF-8 as UTF-16 with the high byte first. Returns the number of bytes.
    private static func write(_ text: UnsafeBufferPointer<UInt8>, to buffer: UnsafeMutableBufferPointer<UInt8>) -> Int {
        var count = 0
        func append(_ unit: UInt32) {
            buffer[count] = UInt8(truncatingIfNeeded: unit >> 8)
            buffer[count + 1] = UInt8(truncatingIfNeeded: unit)
            count += 2
        }
        var index = 0
        while index < text.count {
            let byte = UInt32(text[index])
            func next(_ offset: Int) -> UInt32 {
                index + offset < text.count ? UInt32(text[index + offset]) & 0x3F : 0
            }
            switch byte {
            case ..<0x80:
                append(byte)
                index += 1
            case ..<0xE0:
                append((byte & 0x1F) << 6 | next(1))
                index += 2
            case ..<0xF0:
                append((byte & 0x0F) << 12 | next(1) << 6 | next(2))
                index += 3
            default:
                let scalar = (byte & 0x07) << 18 | next(1) << 12 | next(2) << 6 | next(3)
                append(0xD800 + (scalar &- 0x1_0000) >> 10 & 0x3FF)
                append(0xDC00 + scalar & 0x3FF)
                index += 4
            }
        }
        return count
    }
}
