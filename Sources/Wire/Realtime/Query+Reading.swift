public import Tree

extension Query {
    /// The query that a protocol's query object is; nil for what is none (reference: rtdb-protocol 3.1). An object that
    /// bounds and limits nothing is the default query: its order matters to nobody but the client.
    public init?(object raw: RawJSON) {
        do throws(MessageError) {
            self = try QueryObject.parse(raw) ?? Query()
        } catch {
            return nil
        }
    }
}
