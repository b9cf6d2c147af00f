import HTTPServer

/// What a request asks for, by its path and method alone.
enum Route: Equatable {
    /// Browsers ask before requests to other origins what they may send.
    case preflight
    case data
    case live
    case ready
    case metrics
    case webSocket
    case longPoll
    case rules
    case feeds
    case log
    case description
    /// A path that no data can have, and that is nothing else here.
    case nothing

    /// - Parameter path: still percent-encoded.
    init(_ method: HTTPMethod, _ path: ArraySlice<UInt8>) {
        if method == .options {
            self = .preflight
        } else if Self.isOfData(path) {
            self = .data
        } else {
            self = Self.ofOperators(method, path)
        }
    }

    /// Whether the path is one that data can have, or a mistaken one.
    private static func isOfData(_ path: ArraySlice<UInt8>) -> Bool {
        guard path.count > 2, path[path.startIndex + 1] == UInt8(ascii: ".") else { return true }
        return path.elementsEqual("/.json".utf8) || path.elementsEqual("/.priority.json".utf8)
    }

    private static func ofOperators(_ method: HTTPMethod, _ path: ArraySlice<UInt8>) -> Route {
        if path.starts(with: "/.feeds".utf8), path.count == 7 || path[path.startIndex + 7] == UInt8(ascii: "/") {
            return .feeds
        }
        let isRead = method == .get || method == .head
        return switch String(decoding: path, as: UTF8.self) {
        case "/.health/live" where isRead: .live
        case "/.health/ready" where isRead: .ready
        case "/.metrics" where isRead: .metrics
        case "/.ws": .webSocket
        case "/.lp": .longPoll
        case "/.settings/rules.json": .rules
        case "/.log": .log
        case "/.openapi.json": .description
        default: .nothing
        }
    }
}
