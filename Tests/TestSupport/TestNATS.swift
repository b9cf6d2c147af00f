import CNATS
import Glibc
import Synchronization

/// A NATS server for one test, with JetStream, on a free loopback port.
public final class TestNATS: Sendable {
    public struct Failure: Error {
        public let reason: String
    }

    /// A message stored in a stream.
    public struct Stored: Sendable, Equatable {
        public let subject: String
        public let id: String?
        public let body: String
        let headers: [String: String]

        public func header(_ name: String) -> String? { headers[name] }
    }

    private let held: HeldPort
    private let folder: String
    private let options: [String]
    private let process: Mutex<TestProcess?>

    public var port: UInt16 { held.number }
    public var url: String { "nats://127.0.0.1:\(port)" }

    /// - Parameter options: Options of `nats-server`, such as `--auth`.
    public init(_ options: [String] = []) throws {
        folder = TemporaryFolder.path("nats")
        guard mkdir(folder, 0o700) == 0 else { throw Failure(reason: "no folder") }
        held = try HeldPort()
        self.options = options
        process = Mutex(nil)
        try restart()
    }

    deinit {
        kill()
        TemporaryFolder.remove(folder)
    }

    /// Kills the server.
    public func kill() {
        let running = process.withLock { process in
            defer { process = nil }
            return process
        }
        running?.kill()
    }

    /// Starts the server again, on the same port and with its streams on disk.
    public func restart() throws {
        let log = folder + "/log"
        let started = try TestProcess(
            ["nats-server", "-js", "-sd", folder + "/store", "-a", "127.0.0.1", "-p", String(port)] + options, log: log)
        process.withLock { $0 = started }
        guard eventually({ held.isListenedTo }) else {
            throw Failure(reason: "nats-server does not start: \(TemporaryFolder.lines(of: log).last ?? "")")
        }
    }

    /// Stops the server's process until it is resumed.
    public func pause() { process.withLock { $0?.halt() } }
    public func resume() { process.withLock { $0?.signal(SIGCONT) } }

    // MARK: Streams

    /// - Parameters:
    ///   - maxMessages: The stream refuses further messages.
    public func addStream(
        _ name: String, subjects: [String], maxMessages: Int64? = nil, maxMessageBytes: Int32? = nil
    ) throws {
        try withStreams { streams in
            var configuration = jsStreamConfig()
            jsStreamConfig_Init(&configuration)
            let copies = ([name] + subjects).map { strdup($0) }
            defer { for copy in copies { free(copy) } }
            var pointers: [UnsafePointer<CChar>?] = copies.dropFirst().map { UnsafePointer($0) }
            let status = pointers.withUnsafeMutableBufferPointer { buffer in
                configuration.Name = UnsafePointer(copies[0])
                configuration.Subjects = buffer.baseAddress
                configuration.SubjectsLen = Int32(buffer.count)
                if let maxMessages {
                    configuration.MaxMsgs = maxMessages
                    configuration.Discard = js_DiscardNew
                }
                if let maxMessageBytes { configuration.MaxMsgSize = maxMessageBytes }
                return js_AddStream(nil, streams, &configuration, nil, nil)
            }
            guard status == NATS_OK else { throw Failure(reason: "the stream can't be made") }
        }
    }

    /// Returns all messages of a stream, in order.
    public func messages(of stream: String) throws -> [Stored] {
        try withStreams { streams in
            var information: UnsafeMutablePointer<jsStreamInfo>?
            guard js_GetStreamInfo(&information, streams, stream, nil, nil) == NATS_OK, let information else {
                throw Failure(reason: "no such stream")
            }
            defer { jsStreamInfo_Destroy(information) }
            let state = information.pointee.State
            guard state.Msgs > 0 else { return [] }
            return try (state.FirstSeq...state.LastSeq).map { seq in
                var message: OpaquePointer?
                guard js_GetMsg(&message, streams, stream, seq, nil, nil) == NATS_OK, let message else {
                    throw Failure(reason: "message \(seq) is not there")
                }
                defer { natsMsg_Destroy(message) }
                return Self.stored(message)
            }
        }
    }

    private static func stored(_ message: OpaquePointer) -> Stored {
        var headers: [String: String] = [:]
        for name in [
            "Nats-Msg-Id", "Pathmirror-Id", "Pathmirror-Feed", "Pathmirror-Namespace", "Pathmirror-Event",
            "Pathmirror-Seq",
        ] {
            var value: UnsafePointer<CChar>?
            if natsMsgHeader_Get(message, name, &value) == NATS_OK, let value { headers[name] = String(cString: value) }
        }
        let count = Int(natsMsg_GetDataLength(message))
        let bytes = natsMsg_GetData(message).map { UnsafeRawBufferPointer(start: $0, count: count) }
        return Stored(
            subject: natsMsg_GetSubject(message).map { String(cString: $0) } ?? "", id: headers["Nats-Msg-Id"],
            body: bytes.map { String(decoding: $0, as: UTF8.self) } ?? "", headers: headers)
    }

    /// Runs `body` over a new connection.
    private func withStreams<Result>(_ body: (OpaquePointer) throws -> Result) throws -> Result {
        var options: OpaquePointer?
        natsOptions_Create(&options)
        defer { natsOptions_Destroy(options) }
        natsOptions_SetURL(options, url)
        natsOptions_SetAllowReconnect(options, false)
        if let token = value(of: "--auth") { natsOptions_SetToken(options, token) }
        if let user = value(of: "--user") { natsOptions_SetUserInfo(options, user, value(of: "--pass") ?? "") }
        var connection: OpaquePointer?
        guard natsConnection_Connect(&connection, options) == NATS_OK else { throw Failure(reason: "no connection") }
        defer { natsConnection_Destroy(connection) }
        var streams: OpaquePointer?
        guard natsConnection_JetStream(&streams, connection, nil) == NATS_OK, let streams else {
            throw Failure(reason: "no JetStream")
        }
        defer { jsCtx_Destroy(streams) }
        return try body(streams)
    }

    private func value(of option: String) -> String? {
        options.firstIndex(of: option).map { options[$0 + 1] }
    }
}
