import Engine
import Rules

/// One client's listening at one place: an event stream, or a listen of a realtime session. Belongs to its loop's thread.
protocol Listener: AnyObject, SendableMetatype {
    /// What a pass makes of a group's events, once for all listeners of the group on this loop.
    associatedtype Delivery

    static func delivery(of events: EncodedEvents) -> Delivery

    /// Unique among the listeners of its kind on its loop.
    var id: UInt64 { get }
    var group: ListenerGroup { get }
    /// Whom the rules judge.
    var reader: AuthContext { get }
    /// Counts the reader's logins: each is judged anew.
    var loginNumber: Int { get }
    /// What the reader was last let in by.
    var admission: Admission { get set }

    /// Sends the client what has happened; or keeps it, or skips it, where the client can't be sent it now.
    func deliver(_ delivery: inout Delivery, bufferBytes: Int)
    /// Begins again with the value as of a snapshot: what was between is not known.
    func restart(from snapshot: Snapshot)
    /// Tells the client that it may read no more, and ends.
    func shutOut()
    /// The namespace is no more, or another one has its name.
    func namespaceEnded()
}

/// By what a listener's reader was last let in: by which rules, and with which of its logins.
struct Admission {
    var rules: RulesVersion?
    var login = 0
}
