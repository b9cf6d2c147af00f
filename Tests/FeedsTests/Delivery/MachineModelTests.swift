import Glibc
import LogStore
import TestSupport
import Testing

@testable import Feeds

/// Compares the machine with a model: consumers, readers, owners and administrators act in random order.
///
/// `PATHMIRROR_MODEL_WORLDS` sets the number of histories in each part. 20,000 give a campaign of several minutes.
@Suite struct MachineModelTests {
    private static let worlds = getenv("PATHMIRROR_MODEL_WORLDS").flatMap { UInt64(String(cString: $0)) } ?? 400

    @Test(arguments: 0..<8) func anyHistory(_ part: UInt64) {
        var inferred = 0
        for seed in (part * 100_000)..<(part * 100_000 + Self.worlds) {
            let world = MachineWorld(seed: seed)
            for _ in 0..<120 where world.problem == nil {
                world.step()
                world.checkFigures()
            }
            if world.problem == nil { world.drain() }
            if let problem = world.problem {
                Issue.record("seed \(seed): \(problem)\n\(world.trace.suffix(80).joined(separator: "\n"))")
                return
            }
            inferred += world.inferred
        }
        // Consumers do acknowledge by the last id that they received.
        #expect(inferred > 20)
    }
}

extension MachineWorld {
    /// Checks that the machine's counters match its contents.
    func checkFigures() {
        let held = machine.holders.values.reduce(0) { $0 + $1.count }
        check(machine.heldCount == held, "\(machine.heldCount) messages counted as held, which are \(held)")
        for holder in machine.holders.values {
            let slots = machine.slots.values.filter { $0.holder === holder }
            check(Set(slots.map(\.position)) == Set(holder.slots.map(\.position)), "\(holder.name) has other messages")
            check(slots.count == holder.count, "\(holder.count) messages of \(holder.name) counted: \(slots.count)")
        }
        let retries = machine.slots.values.filter(\.isRetry)
        check(machine.retryCount == retries.count, "\(machine.retryCount) retries counted, which are \(retries.count)")
        let parked = retries.count(where: \.isParked)
        check(machine.parkedRetryCount == parked, "\(machine.parkedRetryCount) retries parked, which are \(parked)")
        let oldest = machine.positions.first ?? retries.map(\.position).min()
        check(machine.oldest?.position == oldest, "another message is older")
        for key in machine.keys.values {
            let ofKey = machine.slots.values.count { $0.isHeld && $0.key === key }
            check(key.held == ofKey, "\(key.held) messages of \(key.name.text) counted as held, which are \(ofKey)")
        }
    }

    func step() {
        switch random.below(28) {
        case 0...3: append()
        case 4...7: read(atMost: 1 + random.below(6))
        case 8...10: pull(1 + random.below(5), by: random.pick(Self.consumers))
        case 11...13: acknowledge()
        case 14, 15: reject()
        case 16: extend()
        case 17: giveBack()
        case 18: wait(Int64(random.below(60)))
        case 19: if commit == nil { take() }
        case 20: finishCommit()
        case 21: administer()
        case 22: readFailedMessages()
        case 23...26: connect()
        default:
            switch random.below(6) {
            case 0: crash()
            case 1: stop()
            case 2: redefine()
            default: wait(Int64(random.below(10)))
            }
        }
    }

    /// Lets consumers behave correctly from now on, until all messages are done.
    func drain() {
        note("drain")
        for _ in 0..<400 {
            administer()
            for _ in 0..<4 { readFailedMessages() }
            read(atMost: 50)
            if commit == nil { take() }
            finishCommit()
            pull(20, by: "a")
            for position in held.filter({ $0.value.consumer == "a" }).keys.sorted() {
                // Consumer "a" no longer holds the message, whatever the answer.
                held[position] = nil
                if machine.acknowledge(position, by: "a") == .done { acknowledged.insert(position) }
            }
            wait(60)
            guard problem == nil else { return }
            if acknowledged.count == messages.count, nextChunk == chunks.count, row.failedMessages.isEmpty,
                !machine.isDirty,
                commit == nil
            {
                break
            }
        }
        wait(1_000)
        let left = messages.keys.filter { !acknowledged.contains($0) }.sorted().map { $0.id(in: "") }
        check(left.isEmpty, "never done: \(left)")
        check(row.failedMessages.isEmpty, "letters are left: \(row.failedMessages.keys.map { $0.id(in: "") })")
        check(machine.slots.isEmpty, "the machine still has messages")
        check(machine.keys.isEmpty, "the machine still has keys: \(machine.keys.keys.map(\.text))")
        check(machine.holders.isEmpty && machine.gated.isEmpty, "the machine still has holders")
        check(machine.pendingBytes == 0, "\(machine.pendingBytes) bytes are left of nothing")
        take()
        finishCommit()
        check(
            row.progress.seq == head && row.progress.done.ranges.isEmpty, "the place is not the head: \(row.progress)")
        check(row.progress.snapshotSeq == nil, "the snapshot is not over")
        guard crashes == 0 else { return }
        check(counters.delivered == Int64(deliveries), "delivered \(deliveries), counted \(counters.delivered)")
        check(
            counters.acknowledged == Int64(acknowledged.subtracting(dropped).count),
            "acknowledged \(acknowledged.subtracting(dropped).count), counted \(counters.acknowledged)")
    }
}
