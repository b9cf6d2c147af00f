/// A message's ordering key. Two keys are one where they have the same bytes, as in the tree, in the log and in SQL: Swift's strings are equal
/// already where they look alike.
struct FeedKey: Hashable, Sendable {
    let text: String

    init(_ text: String) { self.text = text }

    static func == (left: FeedKey, right: FeedKey) -> Bool {
        // Strings of the same bytes are equal, and the comparison of equal ones is quick.
        left.text == right.text && left.text.utf8.elementsEqual(right.text.utf8)
    }

    func hash(into hasher: inout Hasher) { hasher.combine(text) }
}
