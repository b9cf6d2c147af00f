public import Tree

extension Node {
    /// Claims as rules see them: lists have their positions as keys, and what is null or empty is not there. Keys may be
    /// what no key of the database can be, such as `google.com`: such a node is never data.
    public init(_ value: ClaimValue) {
        switch value {
        case .null: self = .null
        case .bool(let flag): self = .bool(flag)
        case .integer(let number): self = .int(number)
        case .number(let number): self = .double(number)
        case .string(let text): self = .string(text)
        case .array(let values):
            self.init(children: values.enumerated().map { (Key(String($0.offset)), Node($0.element)) })
        case .object(let claims): self.init(claims)
        }
    }

    public init(_ claims: Claims) {
        self.init(children: claims.members.map { (Key($0.name), Node($0.value)) })
    }
}
