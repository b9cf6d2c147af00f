import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

extension RealtimeSession {
    /// Resumes a listen after the entry that its client has seen, as event streams do: without events if no entry
    /// followed, else with events from the log. If that is impossible, or more expensive than comparing hashes, asks
    /// the client to listen again with its hashes.
    func resume(_ number: Int64, _ listen: RealtimeListen, _ joined: Snapshot, after text: String) {
        let group = listen.group
        let start = StreamStart(text, readsEverything: login.context.readsEverything, group, joined)
        // A seq without a signature does not identify its history.
        guard case .after(let seen) = start, seen.mark != nil else { return refuseResumption(number, listen) }
        guard isWorthwhile(seen.seq, listen, joined) else {
            return refuseResumption(number, listen, context.metrics.resumesCompared)
        }
        if seen.seq == joined.seq {
            guard seen.isOf(joined.batch) else { return refuseResumption(number, listen) }
            context.metrics.listensResumed.add()
            answerListen(number, listen.target, joined)
            return settled()
        }
        listen.open()
        hold()
        let reading = ResumeReading(group.key, group.ids(joined.rules), maxBytes: settings.streamBufferBytes)
        let listenID = listen.id
        let isMeant = { @Sendable (batch: [UInt8]) in seen.isOf(batch) }
        engine.readLog(
            // The session's later requests wait for this, and comparing hashes needs no database.
            namespace.id, after: seen.seq, through: joined.seq, patience: 0, isMeant: isMeant, each: reading.take
        ) { [sessionLoop = host.sessionLoop, id] result in
            let missed = reading.finish(result, expecting: joined.seq)
            sessionLoop.post(to: id) { session in
                session.resumed(number, session.host.listen(listenID, in: group), missed, joined)
                session.settled()
                session.release()
            }
        }
    }

    /// Reading one entry costs about as much as hashing this many scattered leaves.
    private static let leavesPerEntry: Int64 = 16

    private func isWorthwhile(_ seq: Int64, _ listen: RealtimeListen, _ joined: Snapshot) -> Bool {
        let missed = joined.seq - seq
        return missed <= settings.maxResumeEntries
            && missed <= Int64(joined.root[listen.target.path].rowCount) / Self.leavesPerEntry
    }

    /// - Parameter counter: the counter of the reason. The default counts that the log lacks the missed changes.
    private func refuseResumption(_ number: Int64, _ listen: RealtimeListen, _ counter: Counter? = nil) {
        (counter ?? context.metrics.resumesFresh).add()
        forget(listen)
        answer(number, RealtimeStatus.notResumed.rawValue, .none)
        settled()
    }

    /// - Parameters:
    ///   - listen: nil if rules, data or the login have ended the listen meanwhile.
    ///   - missed: nil if the missed changes can't be sent as events.
    private func resumed(_ number: Int64, _ listen: RealtimeListen?, _ missed: [SharedBytes]?, _ joined: Snapshot) {
        guard let listen else { return answer(number, "permission_denied", .text("Permission denied")) }
        let target = listen.target
        guard mayRead(target.path, target.query, namespace.snapshot) else {
            forget(listen)
            return answer(number, "permission_denied", .text("Permission denied"))
        }
        guard let missed else { return refuseResumption(number, listen) }
        context.metrics.listensResumed.add()
        for event in missed {
            guard case .sent = send(ServerMessage.finish(event.bytes, tag: target.tag), past: listen) else {
                return answer(number, "too_big", .text(Self.tooMuchData))
            }
        }
        _ = send(nil, to: listen, at: joined.seq)
        answerListen(number, target, joined)
    }

    private func send(_ message: [UInt8], past listen: RealtimeListen) -> Opening {
        if transport.send(message) { return .sent }
        forget(listen)
        return .tooLong
    }
}
