import Compression

/// What has been made of a value for answers, each when it was first asked for.
struct WrittenValue: Sendable {
    /// The value as JSON, in one form; nil while nobody has asked for it.
    private(set) var text: [UInt8]?
    /// The text packed by gzip; empty where that makes it no smaller, nil while nobody has asked for it.
    private var packed: [UInt8]?
    /// The value's entity tag.
    private(set) var tag: String?

    init(text: [UInt8]? = nil) { self.text = text }

    var isEmpty: Bool { text == nil && tag == nil }

    /// What it takes of memory.
    var bytes: Int { (text?.capacity ?? 0) + (packed?.capacity ?? 0) + (tag?.utf8.count ?? 0) }

    /// Whether an answer can be made without looking at the value.
    ///
    /// - Parameter packedFrom: texts of so many bytes and more are wanted packed; nil where none is.
    func suffices(packedFrom: Int?, tag wantsTag: Bool) -> Bool {
        guard let text, !wantsTag || tag != nil else { return false }
        return packed != nil || packedFrom.map { text.count < $0 } ?? true
    }

    mutating func text(_ make: () -> [UInt8]) -> [UInt8] {
        if let text { return text }
        let made = make()
        text = made
        return made
    }

    mutating func tag(_ make: () -> String) -> String {
        if let tag { return tag }
        let made = make()
        tag = made
        return made
    }

    /// The text packed by gzip; nil where that makes it no smaller, or there is no text.
    mutating func packedText() -> [UInt8]? {
        if packed == nil, let text {
            let made = Gzip.compress(text) ?? []
            // Of its own size: what it was packed into is as large as the text.
            packed = made.count < text.count ? Array(made[...]) : []
        }
        return packed.flatMap { $0.isEmpty ? nil : $0 }
    }
}
