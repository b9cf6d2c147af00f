internal import CCurl

/// libcurl's handle for many transfers.
///
/// @unchecked Sendable is safe: the client hands it to its thread, and does not use it itself; it is freed when neither has it any more.
final class MultiHandle: @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer

    /// Nil if there is no memory.
    init?() {
        guard let pointer = curl_multi_init() else { return nil }
        self.pointer = pointer
    }

    deinit { curl_multi_cleanup(pointer) }
}
