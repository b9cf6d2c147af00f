/// What a connection remembers, as long as it is not too much; then it forgets all of it and begins again. Only for what can be
/// found out anew.
struct BoundedCache<Key: Hashable, Value> {
    private var values: [Key: Value] = [:]
    /// The most values: a gateway may meet hundreds of thousands of namespaces, on each of its connections.
    static var capacity: Int { 16_384 }

    subscript(key: Key) -> Value? {
        get { values[key] }
        set {
            if newValue != nil, values.count >= Self.capacity, values[key] == nil { values.removeAll() }
            values[key] = newValue
        }
    }

    subscript(key: Key, default standard: @autoclosure () -> Value) -> Value { values[key] ?? standard() }
}
