internal import Runtime

/// Text of an upstream for status, logs and people.
enum UpstreamText {
    private static let mostCharacters = 1_000

    /// Returns the text without control characters and without a credential, shortened to a thousand characters.
    static func clean(_ text: String, without credential: Secret<String>?) -> String {
        var text = String(text.unicodeScalars.prefix(8 * mostCharacters))
        if let secret = credential?.revealed(), !secret.isEmpty { text = text.replacing(secret, with: "…") }
        var clean = String.UnicodeScalarView()
        for scalar in text.unicodeScalars.prefix(mostCharacters) {
            switch scalar.value {
            case 0..<0x20, 0x7F...0x9F: clean.append(" ")
            default: clean.append(scalar)
            }
        }
        return String(clean)
    }
}
