extension MirrorDefinition {
    /// - Throws: `MirrorError.refused` if the stored definition has a mistake.
    func checkUsable() throws(MirrorError) {
        guard let mistake else { return }
        throw .refused(
            "The stored definition of mirror \"\(name)\" can't be used: \(mistake). Apply a definition that can.")
    }
}
