import Synchronization

@testable import Gateway

/// The news of groups, in order of arrival. Any thread may use it.
final class MutexNotes: Sendable {
    private let notes = Mutex<[(GroupMessage, ObjectIdentifier)]>([])

    func add(_ news: GroupMessage, _ group: ObjectIdentifier) { notes.withLock { $0.append((news, group)) } }

    var all: [(GroupMessage, ObjectIdentifier)] { notes.withLock { $0 } }

    func take() -> [(GroupMessage, ObjectIdentifier)] {
        notes.withLock { notes in
            defer { notes = [] }
            return notes
        }
    }
}
