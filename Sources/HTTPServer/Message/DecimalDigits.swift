/// The decimal digits of a number without a String or an allocation.
struct DecimalDigits {
    private var storage: InlineArray<20, UInt8> = .init(repeating: 0x30)
    private var start = 20

    init(_ value: UInt64) {
        var rest = value
        repeat {
            start -= 1
            storage[start] = 0x30 + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        } while rest != 0
    }

    mutating func withBytes<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
        let start = start
        return withUnsafeBytes(of: &storage) { body(UnsafeRawBufferPointer(rebasing: $0[start...])) }
    }
}
