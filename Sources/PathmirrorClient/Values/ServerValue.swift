public import Foundation

/// Values that the server fills in when it applies the write. Until then, listeners see what the client estimates.
public enum ServerValue {
    /// The server's time, in milliseconds since 1970.
    public static func timestamp() -> [AnyHashable: Any] { [".sv": "timestamp"] }

    /// What is there plus `delta`; `delta` where there is no number.
    public static func increment(_ delta: NSNumber) -> [AnyHashable: Any] { [".sv": ["increment": delta]] }
}
