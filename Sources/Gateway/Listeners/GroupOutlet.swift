import Engine

/// What a group tells its listeners.
enum GroupNews: Sendable {
    case events(EncodedEvents)
    /// What is between what was last told and the snapshot is not known.
    case reset(Snapshot)
    /// The namespace has new rules: what may be read may be another part of it now.
    case newRules
    /// The namespace is no more, or another one has its name.
    case ended
}

/// Where a group's news go: one loop's listeners of one kind. Any thread.
protocol GroupOutlet: AnyObject, Sendable {
    func tell(_ news: GroupNews, of group: ObjectIdentifier)
}

/// Who has listeners of groups on a loop. Belongs to the loop's thread.
protocol GroupHearer: AnyObject, SendableMetatype {
    func hear(_ news: GroupNews, from group: ObjectIdentifier)
}

// The hearers are no generic classes on purpose: what is called through these protocols is not specialized for the types of
// a generic class, and would go through thousands of listeners slowly.
extension LoopLink: GroupOutlet where Owner: GroupHearer {
    func tell(_ news: GroupNews, of group: ObjectIdentifier) {
        post { $0.hear(news, from: group) }
    }
}
