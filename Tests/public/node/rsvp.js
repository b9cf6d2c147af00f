// As much of the module `rsvp` as firebase-queue uses.
function defer() {
  const deferred = {};
  deferred.promise = new Promise((resolve, reject) => Object.assign(deferred, { resolve, reject }));
  return deferred;
}

module.exports = { Promise, defer, all: (promises) => Promise.all(promises), reject: (reason) => Promise.reject(reason), resolve: (value) => Promise.resolve(value) };
