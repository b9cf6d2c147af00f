internal import CWSLay

/// wslay's receiving side: it unmasks, joins fragments, checks UTF-8 and answers control frames. Between messages it
/// has no state of its peer, and may continue with another peer's bytes.
final class WebSocketParser {
    private var context: wslay_event_context_ptr?
    fileprivate var events: [WebSocketReceiver.Event] = []
    fileprivate var output: [UInt8] = []
    fileprivate var input: UnsafeRawBufferPointer = .init(start: nil, count: 0)

    init?(maxMessageBytes: Int) {
        var callbacks = wslay_event_callbacks()
        callbacks.recv_callback = receive
        callbacks.send_callback = send
        callbacks.on_msg_recv_callback = messageReceived
        // Unretained: the context is freed before this object is.
        guard wslay_event_context_server_init(&context, &callbacks, Unmanaged.passUnretained(self).toOpaque()) == 0
        else { return nil }
        wslay_event_config_set_max_recv_msg_length(context, UInt64(maxMessageBytes))
    }

    deinit {
        wslay_event_context_free(context)
    }

    /// Parses bytes. Returns false if the connection has to be closed; this parser is then unusable.
    func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        input = bytes
        var isGood = true
        while input.count > 0, isGood {
            let before = input.count
            isGood = wslay_event_recv(context) == 0 && wslay_event_get_read_enabled(context) == 1
            if input.count == before { break }
        }
        input = .init(start: nil, count: 0)
        while wslay_event_want_write(context) == 1, wslay_event_send(context) == 0 {}
        if !isGood, wslay_event_get_status_code_sent(context) == UInt16(WSLAY_CODE_MESSAGE_TOO_BIG.rawValue) {
            events.append(.tooLong)
        }
        return isGood && wslay_event_get_close_received(context) == 0
    }

    func takeEvents() -> [WebSocketReceiver.Event] {
        defer { events = [] }
        return events
    }

    func takeOutput() -> [UInt8] {
        defer { output = [] }
        return output
    }
}

private func parser(_ pointer: UnsafeMutableRawPointer?) -> WebSocketParser? {
    pointer.map { Unmanaged<WebSocketParser>.fromOpaque($0).takeUnretainedValue() }
}

private func receive(
    _ context: wslay_event_context_ptr?, _ buffer: UnsafeMutablePointer<UInt8>?, _ length: Int, _ flags: Int32,
    _ user: UnsafeMutableRawPointer?
) -> Int {
    guard let parser = parser(user), let buffer, parser.input.count > 0 else {
        wslay_event_set_error(context, Int32(WSLAY_ERR_WOULDBLOCK.rawValue))
        return -1
    }
    let count = min(length, parser.input.count)
    UnsafeMutableRawBufferPointer(start: buffer, count: length).copyMemory(
        from: UnsafeRawBufferPointer(rebasing: parser.input[..<count]))
    parser.input = UnsafeRawBufferPointer(rebasing: parser.input[count...])
    return count
}

private func send(
    _ context: wslay_event_context_ptr?, _ data: UnsafePointer<UInt8>?, _ length: Int, _ flags: Int32,
    _ user: UnsafeMutableRawPointer?
) -> Int {
    guard let parser = parser(user), let data else { return -1 }
    parser.output.append(contentsOf: UnsafeBufferPointer(start: data, count: length))
    return length
}

private func messageReceived(
    _ context: wslay_event_context_ptr?, _ message: UnsafePointer<wslay_event_on_msg_recv_arg>?,
    _ user: UnsafeMutableRawPointer?
) {
    guard let parser = parser(user), let message = message?.pointee else { return }
    switch UInt32(message.opcode) {
    case WSLAY_TEXT_FRAME.rawValue:
        parser.events.append(.text(Array(UnsafeBufferPointer(start: message.msg, count: message.msg_length))))
    case WSLAY_BINARY_FRAME.rawValue: parser.events.append(.binary)
    case WSLAY_CONNECTION_CLOSE.rawValue: parser.events.append(.closed)
    default: parser.events.append(.control)
    }
}
