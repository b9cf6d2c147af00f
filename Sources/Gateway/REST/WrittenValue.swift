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

    /// What it takes of memory.
    var bytes: Int { (text?.count ?? 0) + (packed?.count ?? 0) + (tag?.utf8.count ?? 0) }

    /// Whether an answer can be made without looking at the value.
    func suffices(packed wantsPacked: Bool, tag wantsTag: Bool) -> Bool {
        text != nil && (!wantsPacked || packed != nil) && (!wantsTag || tag != nil)
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
            packed = made.count < text.count ? made : []
        }
        return packed.flatMap { $0.isEmpty ? nil : $0 }
    }
}
