// Stands in for the module `idb`, which the app's heartbeat uses in browsers alone.
export function openDB() {
  return Promise.reject(new Error('There is no IndexedDB here.'));
}
