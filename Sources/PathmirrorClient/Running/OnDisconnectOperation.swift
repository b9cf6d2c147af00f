internal import Tree

/// What the server is to do when this client is gone.
enum OnDisconnectOperation: Sendable {
    case put(Node)
    /// Places relative to the operation's.
    case merge([Change])
    /// Nothing of what it was asked for at and below the place.
    case cancel
}
