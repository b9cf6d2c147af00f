/// The tables and views that dropping a mirror removed from its table's database.
public struct DroppedMirror: Sendable, Equatable {
    /// A table or a view, as `schema.name`.
    public struct Relation: Sendable, Equatable {
        public let isView: Bool
        public let name: String
        /// The size of the mirror's table before; nil for other relations.
        public let size: MirrorSize?
    }

    /// The mirror's table and its view of versions, if they were there, and tables that interrupted builds had left.
    public internal(set) var relations: [Relation] = []
}
