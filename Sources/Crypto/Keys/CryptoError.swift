/// Why a key could not be had. Holds no part of a key.
public enum CryptoError: Error, Equatable, Sendable, CustomStringConvertible {
    /// Not a key of the expected form.
    case notAKey(String)
    /// A key, but not one that may be used here.
    case unusableKey(String)
    case cannotSign

    public var description: String {
        switch self {
        case .notAKey(let form): "This is not \(form)."
        case .unusableKey(let reason): "This key can't be used: \(reason)."
        case .cannotSign: "The key refuses to sign."
        }
    }
}
