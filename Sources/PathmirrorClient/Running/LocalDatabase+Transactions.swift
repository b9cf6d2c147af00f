internal import ClientCore
internal import Tree

extension LocalDatabase {
    func run(_ request: TransactionRequest) {
        callBack { request.tell(DatabaseError(.unknown, "Transactions are not there yet."), isCommitted: false, nil) }
    }
}
