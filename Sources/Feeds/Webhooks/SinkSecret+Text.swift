internal import Runtime

extension SinkSecret {
    /// As a webhook's definition has it: the secret itself only where that is wanted.
    func definitionText(showsSecrets: Bool) -> String {
        switch self {
        case .variable(let name): "env:\(name)"
        case .text(let text): showsSecrets ? text.revealed() : Self.mask
        }
    }
}
