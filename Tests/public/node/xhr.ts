// As much of a page's XMLHttpRequest as the SDK's client for crawlers uses.
(globalThis as any).XMLHttpRequest = class {
  onreadystatechange = () => {};
  readyState = 0;
  status = 0;
  responseText = '';
  private request = { method: '', url: '' };

  open(method: string, url: string) {
    this.request = { method, url };
  }

  async send() {
    try {
      const response = await fetch(this.request.url, { method: this.request.method });
      this.responseText = await response.text();
      this.status = response.status;
    } catch {
      this.status = 0;
    }
    this.readyState = 4;
    this.onreadystatechange();
  }
};
