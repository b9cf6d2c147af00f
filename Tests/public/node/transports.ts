// Chooses the transport of the JavaScript SDK. Node's build of it has WebSockets alone; long polling is done here as an iframe of a
// browser does it: each answer is a script, run where the scripts before it ran.
import * as vm from 'vm';

export function use(kind: string, Polling: any, Holder: any, WebSocket: any) {
  if (kind === 'websocket') {
    return;
  }
  Polling.isAvailable = () => true;
  if (kind === 'polling') {
    WebSocket.isAvailable = () => false;
    WebSocket.prototype.open = () => {
      throw new Error('This run is of long polling alone.');
    };
  } else {
    // A page that could not use a WebSocket the last time begins with long polling.
    WebSocket.previouslyFailed = () => true;
  }

  // The number in the names of a page's callbacks, which the server wants to know.
  Object.defineProperty(Holder.prototype, 'uniqueCallbackIdentifier', { value: 1 });

  Holder.prototype.doNodeLongPoll = function (url: string, loaded: () => void) {
    const frame = (this.frame ??= vm.createContext({
      parent: {
        window: new Proxy({}, { get: (_, name) => (...words: unknown[]) => this[String(name).startsWith('pLPCommand') ? 'commandCB' : 'onMessageCB'](...words) })
      }
    }));
    setTimeout(async () => {
      if (!this.sendNewPolls) {
        return;
      }
      const leaving = (this.leaving ??= new AbortController());
      try {
        const response = await fetch(url, { signal: leaving.signal });
        const script = await response.text();
        if (!response.ok) {
          throw new Error(`${response.status}: ${script}`);
        }
        if (!leaving.signal.aborted) {
          vm.runInContext(script, frame);
          loaded();
        }
      } catch (error) {
        if (!leaving.signal.aborted) {
          this.sendNewPolls = false;
          this.close();
        }
      }
    }, 1);
  };

  const close = Holder.prototype.close;
  Holder.prototype.close = function () {
    const was = this.alive;
    this.leaving?.abort();
    close.call(this);
    if (was) {
      // What the page's frame sends when it is taken out.
      fetch(this.urlFn({ disconn: 't', id: this.myID, pw: this.myPW })).catch(() => {});
    }
  };
}
