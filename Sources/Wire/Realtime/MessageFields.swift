import Tree

/// An object's members by name; the last of equal names counts.
struct MessageFields {
    private let members: [(key: String, value: RawJSON)]

    init(_ members: [(key: String, value: RawJSON)]) { self.members = members }

    subscript(_ name: String) -> RawJSON? { members.last { $0.key == name }?.value }

    func string(_ name: String) -> String? { self[name]?.string }

    /// - Parameter owner: what the text belongs to, for the error.
    func requiredString(_ name: String, of owner: String) throws(MessageError) -> String {
        guard let text = string(name) else { throw MessageError(reason: "\(owner) without its text \(name)") }
        return text
    }
}
