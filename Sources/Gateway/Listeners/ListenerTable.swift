import Engine
import HTTPServer
import Rules
import Runtime
import Tree

/// A loop's listeners of one kind, by their groups. Belongs to its loop's thread.
///
/// This is the one way from a group to its listeners: one pass hands them events, has them begin again, judges their readers
/// anew, or ends them.
final class ListenerTable<Member: Listener> {
    private var groups: [ObjectIdentifier: [UInt64: Member]] = [:]
    private let link: LoopLink<ListenerTable>
    private let bufferBytes: Int
    private let delivered: Counter

    /// - Parameters:
    ///   - bufferBytes: how much may wait for a client before it is conflated.
    ///   - delivered: counts events handed to listeners.
    init(_ loop: EventLoop, bufferBytes: Int, delivered: Counter) {
        link = LoopLink(loop)
        self.bufferBytes = bufferBytes
        self.delivered = delivered
        link.lead(to: self)
    }

    // MARK: Members

    func add(_ member: Member) { groups[ObjectIdentifier(member.group), default: [:]][member.id] = member }

    func find(_ id: UInt64, in group: ObjectIdentifier) -> Member? { groups[group]?[id] }

    /// Takes a member out; nil where it is none.
    @discardableResult
    func remove(_ id: UInt64, from group: ObjectIdentifier) -> Member? {
        guard let member = groups[group]?.removeValue(forKey: id) else { return nil }
        if groups[group]?.isEmpty == true { groups[group] = nil }
        return member
    }

    /// The groups that have members here.
    var groupIDs: [ObjectIdentifier] { Array(groups.keys) }

    /// Every member, as of now.
    var all: [Member] {
        var all: [Member] = []
        for members in groups.values { all += members.values }
        return all
    }

    // MARK: The pass

    /// Tells a group's members what the group says.
    func hear(_ news: GroupNews, from group: ObjectIdentifier) {
        switch news {
        case .events(let events): deliver(events, to: group)
        case .reset(let snapshot):
            guard let members = groups[group] else { return }
            for member in members.values { member.restart(from: snapshot) }
        case .newRules: recheck(group)
        case .ended:
            guard let members = groups[group] else { return }
            for member in members.values { member.namespaceEnded() }
        }
    }

    /// Hands events to the members of a group. Before a client is sent anything its reader is judged anew: the same pass does
    /// both, as there may be thousands.
    private func deliver(_ events: EncodedEvents, to group: ObjectIdentifier) {
        guard let members = groups[group], var check = members.first.map({ ReaderCheck($0.value.group) }) else {
            return
        }
        delivered.add(members.count * events.events.count)
        var delivery = Member.delivery(of: events)
        for member in members.values where mayGoOn(member, &check) {
            member.deliver(&delivery, bufferBytes: bufferBytes)
        }
    }

    // MARK: Judging readers

    /// Ends the members whose readers a change of rules or data has shut out (reference: rtdb-protocol 3.5 and 8): some now,
    /// and the others in later slices of the loop's time. Before a client is sent anything its reader is judged anyway.
    func recheck(_ group: ObjectIdentifier) {
        guard let members = groups[group], let first = members.first?.value else { return }
        let check = ReaderCheck(first.group)
        // Where the rules are steady, most have nothing to be judged again by.
        judge(members.values.filter { !isAdmitted($0, check) }.map(\.id)[...], of: group)
    }

    private func judge(_ ids: ArraySlice<UInt64>, of group: ObjectIdentifier) {
        guard let first = groups[group]?.first?.value else { return }
        var check = ReaderCheck(first.group)
        for (index, id) in zip(ids.indices, ids) {
            if let member = groups[group]?[id] { _ = mayGoOn(member, &check) }
            if link.loop.isSliceOver {
                let rest = ids[(index + 1)...]
                return link.post { $0.judge(rest, of: group) }
            }
        }
    }

    /// Judges a member's reader, and ends the member whose reader is shut out.
    func mayGoOn(_ member: Member, _ check: inout ReaderCheck) -> Bool {
        if isAdmitted(member, check) { return true }
        guard check.mayRead(member.reader) else {
            member.shutOut()
            return false
        }
        member.admission = Admission(rules: check.rules, login: member.loginNumber)
        return true
    }

    /// Whether nothing has changed that a member's reader would have to be judged anew by.
    private func isAdmitted(_ member: Member, _ check: ReaderCheck) -> Bool {
        check.holds(member.admission.rules) && member.admission.login == member.loginNumber
    }
}

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

/// Judges the readers of one place by one state of rules and data: what many of them have in common is asked once, and
/// where neither data nor time has a say nothing is asked again of who was let in.
struct ReaderCheck {
    private let snapshot: Snapshot
    private let path: Path
    private let query: QueryContext
    private let now = Clock.unixMilliseconds
    private let isSteady: Bool
    /// What holds for whoever has not signed in, on this machine and elsewhere.
    private var mayAnybodyRead: (here: Bool?, elsewhere: Bool?)

    init(_ snapshot: Snapshot, _ path: Path, _ query: QueryContext) {
        self.snapshot = snapshot
        self.path = path
        self.query = query
        isSteady = snapshot.rules.set.isSteadyForReading(path)
    }

    /// The rules that readers are judged by.
    var rules: RulesVersion { snapshot.rules }

    /// Whether a reader whom `rules` let in, with the login that it has, need not be judged again.
    func holds(_ rules: RulesVersion?) -> Bool { isSteady && rules === snapshot.rules }

    /// For the members of a group, by the newest state.
    init(_ group: ListenerGroup) {
        let query: QueryContext =
            switch group.key.encoding {
            case .events: .overREST(group.key.query)
            case .realtime, .markedRealtime: QueryContext(group.key.query)
            }
        self.init(group.namespace.snapshot, group.key.path, query)
    }

    mutating func mayRead(_ auth: AuthContext) -> Bool {
        if auth.isAdmin { return true }
        guard case .null = auth.auth else { return ask(auth) }
        if let known = auth.isElsewhere ? mayAnybodyRead.elsewhere : mayAnybodyRead.here { return known }
        let isAllowed = ask(auth)
        if auth.isElsewhere { mayAnybodyRead.elsewhere = isAllowed } else { mayAnybodyRead.here = isAllowed }
        return isAllowed
    }

    private func ask(_ auth: AuthContext) -> Bool {
        snapshot.rules.set.mayRead(path, query: query, root: snapshot.root, auth: auth, now: now).isAllowed
    }
}
