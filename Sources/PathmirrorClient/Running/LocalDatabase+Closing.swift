internal import ClientCore

extension LocalDatabase {
    /// Tells everybody who waits for the server that the database ends before it has answered: whoever awaits would wait for
    /// ever.
    func giveUpAnswers() {
        let error = DatabaseError(
            .disconnected,
            "The app was deleted before the server had answered. "
                + (cache == nil
                    ? "What was sent may have been done, the rest is lost."
                    : "Plain writes are kept, and sent when it is there again; anything else may have been done or not.")
        )
        for id in completions.keys.sorted() {
            guard let completion = completions.removeValue(forKey: id) else { continue }
            callBack { completion.tell(error) }
        }
        for id in transactionRequests.keys.sorted() {
            guard let request = transactionRequests.removeValue(forKey: id)?.request else { continue }
            callBack { request.tell(error, isCommitted: false, nil) }
        }
        for id in disconnectRequests.keys.sorted(by: { $0.rawValue < $1.rawValue }) {
            guard let completion = disconnectRequests.removeValue(forKey: id)?.completion else { continue }
            callBack { completion.tell(error) }
        }
    }
}
