import CNATS
import Runtime

/// A connection to a server, until it ends. Belongs to the client's thread; acknowledgements arrive on a thread of the library.
final class NATSConnection {
    private let connection: OpaquePointer
    private var subscription: OpaquePointer?
    /// The prefix of reply subjects. The reply to a message goes to this prefix followed by the message's token.
    private let inbox: String

    init(_ settings: NATSSettings, core: NATSCore, number: Int) throws(NATSError) {
        let options = try NATSOptions(settings)
        var made: OpaquePointer?
        let status = natsConnection_Connect(&made, options.pointer)
        guard status == NATS_OK, let connection = made else { throw Self.error(status) }
        self.connection = connection
        var text: UnsafeMutablePointer<CChar>?
        guard natsInbox_Create(&text) == NATS_OK, let text else {
            natsConnection_Destroy(connection)
            throw .cannotStart("no memory for an inbox")
        }
        inbox = String(cString: text) + "."
        natsInbox_Destroy(text)
        do throws(NATSError) {
            try listen(NATSLink(core, number: number, prefixBytes: inbox.utf8.count))
        } catch {
            close()
            throw error
        }
    }

    /// Subscribes the link to the replies. The library retains the link until it reports the end of the subscription.
    /// It does so once, after the last reply, also if the connection breaks.
    private func listen(_ link: NATSLink) throws(NATSError) {
        let context = Unmanaged.passRetained(link).toOpaque()
        var status = natsConnection_Subscribe(
            &subscription, connection, inbox + "*",
            { _, _, message, context in
                guard let message else { return }
                defer { natsMsg_Destroy(message) }
                guard let context else { return }
                Unmanaged<NATSLink>.fromOpaque(context).takeUnretainedValue().received(message)
            }, context)
        guard status == NATS_OK, let subscription else {
            Unmanaged<NATSLink>.fromOpaque(context).release()
            throw Self.error(status)
        }
        status = natsSubscription_SetOnCompleteCB(
            subscription,
            { context in
                guard let context else { return }
                Unmanaged<NATSLink>.fromOpaque(context).takeRetainedValue().ended()
            }, context)
        guard status == NATS_OK else {
            // The connection has already broken. No message was published, so no reply is being delivered.
            Unmanaged<NATSLink>.fromOpaque(context).release()
            throw Self.error(status)
        }
        // The client's limit on messages also limits the number of replies.
        _ = natsSubscription_SetPendingLimits(subscription, -1, -1)
    }

    func publish(_ message: NATSMessage, token: UInt64) throws(NATSError) {
        var made: OpaquePointer?
        var status = message.body.withUnsafeBytes { body in
            natsMsg_Create(
                &made, message.subject, inbox + String(token), body.bindMemory(to: CChar.self).baseAddress,
                Int32(body.count))
        }
        guard status == NATS_OK, let made else { throw Self.error(status) }
        defer { natsMsg_Destroy(made) }
        var size = message.body.count
        for header in message.allHeaders {
            size += header.name.utf8.count + header.value.utf8.count + 4
            status = natsMsgHeader_Set(made, header.name, header.value)
            guard status == NATS_OK else { throw Self.error(status) }
        }
        let limit = Int(natsConnection_GetMaxPayload(connection))
        if limit > 0, size > limit { throw .tooLarge(bytes: size, limit: limit) }
        status = natsConnection_PublishMsg(connection, made)
        if status == NATS_MAX_PAYLOAD { throw .tooLarge(bytes: size, limit: limit) }
        guard status == NATS_OK else { throw .connectionLost(Self.text(status)) }
    }

    /// The last error of the server or the library, or an empty string.
    var lastError: String {
        var text: UnsafePointer<CChar>?
        guard natsConnection_GetLastError(connection, &text) != NATS_OK, let text else { return "" }
        return String(String(cString: text).prefix(300))
    }

    /// Ends the connection. Called once, and the connection is not used afterwards.
    func close() {
        natsSubscription_Destroy(subscription)
        natsConnection_Destroy(connection)
    }

    // MARK: Errors

    static func error(_ status: natsStatus) -> NATSError {
        let text = text(status)
        switch status {
        case NATS_CONNECTION_AUTH_FAILED, NATS_NOT_PERMITTED: return .notAuthorized(text)
        case NATS_SSL_ERROR, NATS_SECURE_CONNECTION_WANTED, NATS_SECURE_CONNECTION_REQUIRED: return .insecure(text)
        case NATS_NO_MEMORY, NATS_FAILED_TO_INITIALIZE, NATS_INVALID_ARG, NATS_ADDRESS_MISSING:
            return .cannotStart(text)
        default: return .unreachable(text)
        }
    }

    /// Returns the library's text for a status, with the details of the last failure on this thread.
    private static func text(_ status: natsStatus) -> String {
        let name = natsStatus_GetText(status).map { String(cString: $0) } ?? "unknown"
        guard let more = nats_GetLastError(nil).map({ String(cString: $0) }), !more.isEmpty, more != name else {
            return name
        }
        return String("\(name): \(more)".prefix(300))
    }
}

/// Passes the replies on one connection to its client.
final class NATSLink: Sendable {
    private let core: NATSCore
    private let number: Int
    private let prefixBytes: Int

    init(_ core: NATSCore, number: Int, prefixBytes: Int) {
        self.core = core
        self.number = number
        self.prefixBytes = prefixBytes
    }

    /// Handles a reply. Its subject ends with the token of the message.
    func received(_ message: OpaquePointer) {
        guard let subject = natsMsg_GetSubject(message).map({ String(cString: $0) }),
            let token = UInt64(String(subject.utf8.dropFirst(prefixBytes)) ?? "")
        else { return }
        if natsMsg_IsNoResponders(message) { return core.notStored(token) }
        let count = Int(natsMsg_GetDataLength(message))
        let bytes = natsMsg_GetData(message).map { data in
            data.withMemoryRebound(to: UInt8.self, capacity: count) {
                [UInt8](UnsafeBufferPointer(start: $0, count: count))
            }
        }
        core.acknowledged(token, AcknowledgementText.read(bytes ?? []))
    }

    func ended() { core.connectionEnded(number) }
}
