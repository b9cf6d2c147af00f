internal import CCrypto

/// Bytes that nobody can guess.
public enum RandomBytes {
    /// - Throws: when the system gives no randomness; then there is nothing safe to go on with.
    public static func make(_ count: Int) throws(CryptoError) -> [UInt8] {
        var isMade = false
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            isMade = count == 0 || RAND_bytes(buffer.baseAddress, Int32(count)) == 1
            initialized = isMade ? count : 0
        }
        guard isMade else { throw .noRandomness }
        return bytes
    }
}

/// Why a key or a random number could not be had. Holds no part of a key.
public enum CryptoError: Error, Equatable, Sendable, CustomStringConvertible {
    case noRandomness
    /// Not a key of the expected form.
    case notAKey(String)
    /// A key, but not one that may be used here.
    case unusableKey(String)
    case cannotSign

    public var description: String {
        switch self {
        case .noRandomness: "The system gives no random bytes."
        case .notAKey(let form): "This is not \(form)."
        case .unusableKey(let reason): "This key can't be used: \(reason)."
        case .cannotSign: "The key refuses to sign."
        }
    }
}
