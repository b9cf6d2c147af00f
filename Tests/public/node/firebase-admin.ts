// As much of firebase-admin 4 as firebase-queue uses, on the compatible API of the JavaScript SDK.
import firebase from '@firebase/app-compat';
import '@firebase/database-compat';

export const initializeApp = (options: any) => firebase.initializeApp({ databaseURL: options.databaseURL });
export const credential = { cert: (account: unknown) => account };
export const database: any = () => {
  const database = (firebase as any).database();
  // Version 4 took numbers for paths.
  return { ref: (path?: unknown) => database.ref(path === undefined ? path : String(path)) };
};
Object.defineProperty(database, 'ServerValue', { get: () => (firebase as any).database.ServerValue });
