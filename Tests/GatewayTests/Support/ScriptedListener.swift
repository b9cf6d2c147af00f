import Engine
import Rules

@testable import Gateway

/// A listener that records its notifications.
final class ScriptedListener: Listener {
    enum Call: Equatable {
        case events([Int64], shared: Int)
        case restart(Int64)
        case shutOut
        case ended
    }

    /// The shared output of a pass. Counts its users.
    struct Delivery {
        let events: EncodedEvents
        var users = 0
    }

    static func delivery(of events: EncodedEvents) -> Delivery { Delivery(events: events) }

    let id: UInt64
    let group: ListenerGroup
    var reader: AuthContext
    var loginNumber = 0
    var admission = Admission()
    private(set) var calls: [Call] = []
    /// Called at each notification of the listener.
    var onCall: (() -> Void)?

    init(_ id: UInt64, _ group: ListenerGroup, _ reader: AuthContext = .unauthenticated) {
        self.id = id
        self.group = group
        self.reader = reader
    }

    func deliver(_ delivery: inout Delivery, bufferBytes: Int) {
        delivery.users += 1
        note(.events(delivery.events.events.map(\.seq), shared: delivery.users))
    }

    func restart(from snapshot: Snapshot) { note(.restart(snapshot.seq)) }
    func shutOut() { note(.shutOut) }
    func namespaceEnded() { note(.ended) }

    private func note(_ what: Call) {
        calls.append(what)
        onCall?()
    }

    /// Returns the notifications since the last call.
    func take() -> [Call] {
        defer { calls = [] }
        return calls
    }
}

/// An outlet that records a group's news as a loop would receive them, without a loop.
final class ScriptedOutlet: GroupReceiver {
    private let notes = MutexNotes()

    func notify(_ news: GroupMessage, of group: ObjectIdentifier) { notes.add(news, group) }

    /// Returns the news since the last call.
    func take() -> [GroupMessage] { notes.take().map(\.0) }
    var groups: Set<ObjectIdentifier> { Set(notes.all.map(\.1)) }
}
