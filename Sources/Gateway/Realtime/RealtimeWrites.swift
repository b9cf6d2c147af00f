import Engine
import HTTPServer

/// The writes of a loop's realtime sessions that are under way. Belongs to the loop's thread.
final class RealtimeWrites {
    private let sessions: SessionTable
    private let sink: RealtimeSink
    private let link: LoopLink<RealtimeWrites>
    /// Whose writes they are, by the writes' numbers.
    private var writers: [UInt64: String] = [:]
    /// What is to be done after a write, of clients that are gone.
    private var endings: [UInt64: () -> Void] = [:]
    private var lastNumber: UInt64 = 0

    init(_ loop: EventLoop, _ sessions: SessionTable) {
        self.sessions = sessions
        link = LoopLink(loop)
        sink = RealtimeSink(link)
        link.lead(to: self)
    }

    /// See `RealtimeHost.submit`.
    func submit(
        _ write: Write, for session: RealtimeSession, _ body: @escaping (RealtimeSession, WriteOutcome) -> Void
    ) -> UInt64 {
        lastNumber += 1
        let number = lastNumber
        session.writes[number] = body
        writers[number] = session.id
        session.namespace.submit(write, to: sink, token: number)
        return number
    }

    /// See `RealtimeHost.afterWrite`.
    func afterWrite(_ number: UInt64, _ body: @escaping () -> Void) { endings[number] = body }

    fileprivate func written(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        // A client with several writes under way is sent their answers together.
        var gathering: [any RealtimeTransport] = []
        for (number, outcome) in outcomes {
            if let ending = endings.removeValue(forKey: number) { ending() }
            guard let id = writers.removeValue(forKey: number), let session = sessions[id],
                let body = session.writes.removeValue(forKey: number)
            else { continue }
            if session.transport.gather() { gathering.append(session.transport) }
            body(session, outcome)
            session.writeAnswered()
        }
        for transport in gathering { transport.sendGathered() }
    }
}

/// Brings the outcomes of realtime writes back to their loop.
private final class RealtimeSink: WriteSink {
    private let link: LoopLink<RealtimeWrites>

    init(_ link: LoopLink<RealtimeWrites>) { self.link = link }

    func complete(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        link.post { $0.written(outcomes) }
    }
}
