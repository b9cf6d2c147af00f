import Engine
import HTTPServer
import Runtime

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
    var all: some Sequence<Member> { groups.values.lazy.flatMap(\.values) }

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
