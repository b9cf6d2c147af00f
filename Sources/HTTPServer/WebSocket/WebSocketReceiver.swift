internal import CWSLay

/// Takes the bytes of a WebSocket client and gives its messages: wslay unmasks, joins fragments, checks UTF-8 and answers
/// control frames. Belongs to one loop's thread.
public final class WebSocketReceiver {
    public enum Event {
        case text([UInt8])
        case binary
        case closed
        /// Any frame came: the peer is alive.
        case control
    }

    /// Bytes of control frames that must go to the client.
    public private(set) var output: [UInt8] = []
    private var context: wslay_event_context_ptr?
    fileprivate var events: [Event] = []
    fileprivate var input: UnsafeRawBufferPointer = .init(start: nil, count: 0)

    /// - Parameter maxMessageBytes: a longer message ends the connection with the status "too big".
    public init?(maxMessageBytes: Int) {
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

    /// Takes what the peer sent; the bytes are not kept. False when the connection has to be closed, once `output` is sent.
    public func take(_ bytes: UnsafeRawBufferPointer, _ body: (Event) -> Void) -> Bool {
        input = bytes
        var isGood = true
        while input.count > 0, isGood {
            let before = input.count
            isGood = wslay_event_recv(context) == 0 && wslay_event_get_read_enabled(context) == 1
            if input.count == before { break }
        }
        input = .init(start: nil, count: 0)
        let received = events
        events.removeAll(keepingCapacity: true)
        for event in received { body(event) }
        while wslay_event_want_write(context) == 1, wslay_event_send(context) == 0 {}
        return isGood && wslay_event_get_close_received(context) == 0
    }

    /// The control frames that must be sent now.
    public func takeOutput() -> [UInt8] {
        defer { output = [] }
        return output
    }

    fileprivate func append(_ bytes: UnsafeBufferPointer<UInt8>) { output.append(contentsOf: bytes) }
}

private func receiver(_ pointer: UnsafeMutableRawPointer?) -> WebSocketReceiver? {
    pointer.map { Unmanaged<WebSocketReceiver>.fromOpaque($0).takeUnretainedValue() }
}

private func receive(
    _ context: wslay_event_context_ptr?, _ buffer: UnsafeMutablePointer<UInt8>?, _ length: Int, _ flags: Int32,
    _ user: UnsafeMutableRawPointer?
) -> Int {
    guard let receiver = receiver(user), let buffer, receiver.input.count > 0 else {
        wslay_event_set_error(context, Int32(WSLAY_ERR_WOULDBLOCK.rawValue))
        return -1
    }
    let count = min(length, receiver.input.count)
    UnsafeMutableRawBufferPointer(start: buffer, count: length).copyMemory(
        from: UnsafeRawBufferPointer(rebasing: receiver.input[..<count]))
    receiver.input = UnsafeRawBufferPointer(rebasing: receiver.input[count...])
    return count
}

private func send(
    _ context: wslay_event_context_ptr?, _ data: UnsafePointer<UInt8>?, _ length: Int, _ flags: Int32,
    _ user: UnsafeMutableRawPointer?
) -> Int {
    guard let receiver = receiver(user), let data else { return -1 }
    receiver.append(UnsafeBufferPointer(start: data, count: length))
    return length
}

private func messageReceived(
    _ context: wslay_event_context_ptr?, _ message: UnsafePointer<wslay_event_on_msg_recv_arg>?,
    _ user: UnsafeMutableRawPointer?
) {
    guard let receiver = receiver(user), let message = message?.pointee else { return }
    switch UInt32(message.opcode) {
    case WSLAY_TEXT_FRAME.rawValue:
        let bytes = UnsafeBufferPointer(start: message.msg, count: message.msg_length)
        receiver.events.append(.text(Array(bytes)))
    case WSLAY_BINARY_FRAME.rawValue: receiver.events.append(.binary)
    case WSLAY_CONNECTION_CLOSE.rawValue: receiver.events.append(.closed)
    default: receiver.events.append(.control)
    }
}
