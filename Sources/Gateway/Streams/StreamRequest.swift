import Tree
import Wire

/// What a client asks for that opens an event stream.
struct StreamRequest {
    let path: Path
    let query: Query?
    let form: JSONForm
    let identity: Identity
    /// Whether the stream's events have ids.
    let hasIDs: Bool
    /// The id of the last event that the client has seen, as it says.
    let lastEventID: String?
}
