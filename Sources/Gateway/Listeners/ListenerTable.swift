import Engine
import HTTPServer
import Rules
import Runtime
import Tree

/// A loop's listeners of one kind, by group. Belongs to its loop's thread.
///
/// All messages from a group to its listeners pass this table: one pass delivers events, restarts listeners, re-checks
/// their readers, or ends them.
final class ListenerTable<Member: Listener> {
    private var groups: [ObjectIdentifier: [UInt64: Member]] = [:]
    private let link: LoopLink<ListenerTable>
    private let bufferBytes: Int
    private let delivered: Counter

    /// - Parameters:
    ///   - bufferBytes: maximum number of unsent bytes for a client before it is conflated.
    ///   - delivered: counts events passed to listeners.
    init(_ loop: EventLoop, bufferBytes: Int, delivered: Counter) {
        link = LoopLink(loop)
        self.bufferBytes = bufferBytes
        self.delivered = delivered
        link.lead(to: self)
    }

    // MARK: Members

    func add(_ member: Member) { groups[ObjectIdentifier(member.group), default: [:]][member.id] = member }

    func find(_ id: UInt64, in group: ObjectIdentifier) -> Member? { groups[group]?[id] }

    /// Removes and returns a member; returns nil if it does not exist.
    @discardableResult
    func remove(_ id: UInt64, from group: ObjectIdentifier) -> Member? {
        guard let member = groups[group]?.removeValue(forKey: id) else { return nil }
        if groups[group]?.isEmpty == true { groups[group] = nil }
        return member
    }

    /// The groups that have members here.
    var groupIDs: [ObjectIdentifier] { Array(groups.keys) }

    /// A copy of all current members.
    var all: [Member] {
        var all: [Member] = []
        for members in groups.values { all += members.values }
        return all
    }

    // MARK: The pass

    /// Applies a group's message to its members.
    func hear(_ news: GroupMessage, from group: ObjectIdentifier) {
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

    /// Passes events to the members of a group. Re-checks each reader in the same pass, because there may be thousands.
    private func deliver(_ events: EncodedEvents, to group: ObjectIdentifier) {
        guard let members = groups[group], var check = members.first.map({ ReaderCheck($0.value.group) }) else {
            return
        }
        delivered.add(members.count * events.events.count)
        var delivery = Member.delivery(of: events)
        for member in members.values where mayContinue(member, &check) {
            member.deliver(&delivery, bufferBytes: bufferBytes)
        }
    }

    // MARK: Checking readers

    /// Ends the members whose readers lost access by a change of rules or data (reference: rtdb-protocol 3.5 and 8).
    /// Checks some now, and the others in later slices of the loop's time. `deliver` checks each reader anyway before
    /// it sends events.
    func recheck(_ group: ObjectIdentifier) {
        guard let members = groups[group], let first = members.first?.value else { return }
        let check = ReaderCheck(first.group)
        // Under steady rules most members need no check.
        judge(members.values.filter { !isAdmitted($0, check) }.map(\.id)[...], of: group)
    }

    private func judge(_ ids: ArraySlice<UInt64>, of group: ObjectIdentifier) {
        guard let first = groups[group]?.first?.value else { return }
        var check = ReaderCheck(first.group)
        for (index, id) in zip(ids.indices, ids) {
            if let member = groups[group]?[id] { _ = mayContinue(member, &check) }
            if link.loop.isSliceOver {
                let rest = ids[(index + 1)...]
                return link.post { $0.judge(rest, of: group) }
            }
        }
    }

    /// Checks a member's reader, and ends the member if its reader lost access. Returns whether the member continues.
    func mayContinue(_ member: Member, _ check: inout ReaderCheck) -> Bool {
        if isAdmitted(member, check) { return true }
        guard check.mayRead(member.reader) else {
            member.shutOut()
            return false
        }
        member.admission = Admission(rules: check.rules, login: member.loginNumber)
        return true
    }

    /// Returns whether the member's last check is still valid.
    private func isAdmitted(_ member: Member, _ check: ReaderCheck) -> Bool {
        check.holds(member.admission.rules) && member.admission.login == member.loginNumber
    }
}

/// One client's listener at one path: an event stream, or a listen of a realtime session. Belongs to its loop's thread.
protocol Listener: AnyObject, SendableMetatype {
    /// The form of a group's events that one pass prepares once for all listeners of the group on this loop.
    associatedtype Delivery

    static func delivery(of events: EncodedEvents) -> Delivery

    /// Unique among the listeners of its kind on its loop.
    var id: UInt64 { get }
    var group: ListenerGroup { get }
    /// The reader, as rules see it.
    var reader: AuthContext { get }
    /// The number of the reader's logins; each login is checked separately.
    var loginNumber: Int { get }
    /// The conditions of the reader's last successful check.
    var admission: Admission { get set }

    /// Sends the client the events. If the client can't receive them now, keeps or skips them.
    func deliver(_ delivery: inout Delivery, bufferBytes: Int)
    /// Restarts with the value of a snapshot, because the changes before it are unknown.
    func restart(from snapshot: Snapshot)
    /// Notifies the client that it lost access, and ends.
    func shutOut()
    /// Ends, because the namespace was removed or another one has its name.
    func namespaceEnded()
}

/// The rules and the login with which a listener's reader was last admitted.
struct Admission {
    var rules: RulesVersion?
    var login = 0
}

/// Checks the readers of one path against one state of rules and data. Anonymous readers share one result. If access
/// depends neither on data nor on time, an admitted reader is not checked again.
struct ReaderCheck {
    private let snapshot: Snapshot
    private let path: Path
    private let query: QueryContext
    private let now = Clock.unixMilliseconds
    private let isSteady: Bool
    /// The results for anonymous readers, on this machine and elsewhere.
    private var publicReads: (here: Bool?, elsewhere: Bool?)

    init(_ snapshot: Snapshot, _ path: Path, _ query: QueryContext) {
        self.snapshot = snapshot
        self.path = path
        self.query = query
        isSteady = snapshot.rules.set.isSteadyForReading(path)
    }

    /// The rules that readers are checked against.
    var rules: RulesVersion { snapshot.rules }

    /// Returns whether a reader that `rules` admitted with its current login needs no new check.
    func holds(_ rules: RulesVersion?) -> Bool { isSteady && rules === snapshot.rules }

    /// Checks the members of a group against the newest state.
    init(_ group: ListenerGroup) {
        let query: QueryContext =
            switch group.key.encoding {
            case .events: .overREST(group.key.query)
            case .realtime, .markedRealtime: QueryContext(group.key.query)
            }
        self.init(group.namespace.snapshot, group.key.path, query)
    }

    mutating func mayRead(_ auth: AuthContext) -> Bool {
        if auth.readsEverything { return true }
        guard case .null = auth.auth else { return ask(auth) }
        if let known = auth.isElsewhere ? publicReads.elsewhere : publicReads.here { return known }
        let isAllowed = ask(auth)
        if auth.isElsewhere { publicReads.elsewhere = isAllowed } else { publicReads.here = isAllowed }
        return isAllowed
    }

    private func ask(_ auth: AuthContext) -> Bool {
        snapshot.rules.set.mayRead(path, query: query, root: snapshot.root, auth: auth, now: now).isAllowed
    }
}
