internal import ClientCore
public import Foundation
internal import Wire

/// The reason why a database operation failed.
///
/// As an `NSError` it has the domain `com.firebase` and the code's raw value, because apps written for Firebase's SDK may compare them.
public struct DatabaseError: Error, Sendable, Equatable {
    /// The kinds of errors. docs/reference/client.md has a table of them.
    public enum Code: Int, Sendable, CaseIterable {
        /// The rules do not allow the operation.
        case permissionDenied = 1
        /// The server is unreachable or temporarily unable, and the client has no local data for the answer.
        case unavailable = 2
        /// The write was rolled back by `purgeOutstandingWrites`, or, in the case of a transaction, by `goOffline`.
        case writeCanceled = 3
        /// The value, the path or the query is invalid.
        case invalidArgument = 4
        /// The transaction was refused too often, because other clients changed the data in the meantime.
        case maxRetries = 5
        /// A plain write to the same path replaced the transaction.
        case overriddenBySet = 6
        /// The connection ended after a transaction was sent, or the app was deleted before the answer arrived. The server may
        /// have done the operation.
        case disconnected = 7
        /// The user's credential has expired or was revoked.
        case expiredToken = 8
        /// The wait ended before the expected entry arrived.
        case timedOut = 9
        /// The server does not support the request: it is not a Pathmirror gateway, or an older one.
        case unsupported = 10
        /// Any other answer of the server.
        case unknown = 9999
    }

    /// The kind of the error.
    public let code: Code
    /// A message with the event, the path and the remedy.
    public let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}

extension DatabaseError: LocalizedError, CustomNSError, CustomStringConvertible {
    /// The message.
    public var errorDescription: String? { message }
    /// The message.
    public var description: String { message }
    /// The domain `com.firebase`.
    public static var errorDomain: String { "com.firebase" }
    /// The code's raw value.
    public var errorCode: Int { code.rawValue }
    /// The message as the localized description.
    public var errorUserInfo: [String: Any] { [NSLocalizedDescriptionKey: message] }
}

extension DatabaseError {
    init(_ argument: InvalidArgument, in function: String) {
        self.init(.invalidArgument, "\(function): \(argument.description)")
    }

    /// Returns nil for success.
    ///
    /// - Parameter what: The operation, such as `the write at /a`.
    init?(_ outcome: RequestOutcome, of what: String) {
        switch outcome {
        case .done: return nil
        case .refused(let failure): self.init(failure, what)
        case .lost: self.init(.disconnected, "The connection ended before the server answered: \(what).")
        case .purged: self.init(.writeCanceled, "purgeOutstandingWrites() removed \(what).")
        }
    }

    /// - Parameter what: The refused operation, such as `setting /a`.
    init(_ failure: RequestFailure, _ what: String) {
        let reason = failure.explanation ?? failure.status.rawValue
        switch failure.status.rawValue {
        case "permission_denied": self.init(.permissionDenied, "The rules don't allow \(what).")
        case "expired_token", "invalid_token": self.init(.expiredToken, "The login was refused for \(what): \(reason)")
        case "unavailable": self.init(.unavailable, "The server is unavailable for \(what): \(reason)")
        default: self.init(.unknown, "The server refused \(what): \(reason)")
        }
    }
}
