internal import ClientCore
internal import Tree
internal import Wire

/// The unanswered get requests.
struct PendingGets {
    /// The requests that wait for a connection, in order, and the times until which they wait.
    var waiting: [(request: GetRequest, until: Int64)] = []
    /// The requests that were sent.
    var asked: [RequestID: GetRequest] = [:]

    var deadline: Int64? { waiting.first?.until }
}

extension LocalDatabase {
    func get(_ request: GetRequest) {
        guard !request.spec.path.isInfo else {
            let node = info.reduce(Node.null) { $0.replacing($1.key, with: $1.value) }[request.spec.path]
            return callBack { request.report(node, seq: nil) }
        }
        if isConnected {
            ask(request)
        } else if isOffline {
            answerFromCache(request)
        } else {
            gets.waiting.append((request, until: now + settings.getWait))
        }
    }

    private func ask(_ request: GetRequest) {
        lastRequest += 1
        let id = RequestID(rawValue: lastRequest)
        gets.asked[id] = request
        machine.get(id, request.spec, now: now)
    }

    func askWaitingGets() {
        let waiting = gets.waiting
        gets.waiting = []
        for (request, _) in waiting { ask(request) }
    }

    /// Answers the requests that have waited long enough from local data; without a time, all waiting requests.
    func answerGetsFromCache(before time: Int64 = .max) {
        let due = gets.waiting.prefix { $0.until <= time }
        gets.waiting.removeFirst(due.count)
        for (request, _) in due { answerFromCache(request) }
    }

    func getAnswered(_ id: RequestID, _ outcome: GetOutcome) {
        guard let request = gets.asked.removeValue(forKey: id) else { return }
        switch outcome {
        case .value(let node, let seq):
            lastGet = request.spec.path
            raise(tree.applyAnswer(node, of: request.spec, seq: seq))
            dataChanged(at: request.spec.path)
            callBack { request.report(node, seq: seq) }
        case .refused(let failure):
            let error = DatabaseError(failure, "reading \(request.spec.path)")
            callBack { request.report(error) }
        case .lost: answerFromCache(request)
        }
    }

    /// Answers a request with local data: from a listener or from disk.
    private func answerFromCache(_ request: GetRequest) {
        if let node = tree.localValue(of: request.spec) {
            let seq = tree.localSeq(of: request.spec)
            return callBack { request.report(node, seq: seq) }
        }
        if let cached = cache?.cached(request.spec), cached.isComplete {
            let node = request.spec.loadsAllData ? cached.node : request.spec.query.select(from: cached.node)
            let seq = cached.mark?.seq
            return callBack { request.report(node, seq: seq) }
        }
        let error = DatabaseError(
            .unavailable,
            "There is no connection, and the value of \(request.spec.path) is unknown: the path has no listener and is not in the cache."
        )
        callBack { request.report(error) }
    }
}

/// A get request of an app.
// Safe: the completion, which need not be Sendable, runs once, on the database's callback queue.
struct GetRequest: @unchecked Sendable {
    let spec: QuerySpec
    private let ref: DatabaseReference
    private let completion: ((any Error)?, DataSnapshot?) -> Void

    init(query: DatabaseQuery, completion: @escaping ((any Error)?, DataSnapshot?) -> Void) {
        spec = query.spec
        ref = query.ref
        self.completion = completion
    }

    /// Calls the completion with a value. Must run on the callback queue.
    ///
    /// - Parameter seq: The log entry at which the value holds, if known.
    func report(_ node: Node, seq: Int64?) {
        completion(nil, DataSnapshot(ref: ref, node: node, index: spec.query.index, seq: seq))
    }
    /// Calls the completion with an error. Must run on the callback queue.
    func report(_ error: DatabaseError) { completion(error, nil) }
}
