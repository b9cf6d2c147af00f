import Engine
import Tree
import Wire

/// What listeners have to have in common to be sent the same bytes.
struct ListenerKey: Hashable, Sendable {
    enum Encoding: Hashable, Sendable {
        /// Server-sent events, with an id each where the client asks for ids.
        case events(JSONForm, withIDs: Bool)
        /// Pushes of the realtime protocol, but for their end, which holds each listen's own tag.
        case realtime
        /// The same, with marks: for clients that have asked for the gateway's extension.
        case markedRealtime
    }

    let namespace: NamespaceKey
    let path: Path
    let query: Query?
    let encoding: Encoding
}
