// Search from a disk: a browser starts no worker from file://, so the worker's script runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = new URL(url, location.href);
      this.ready = new Promise(done => { script.onload = () => done(inside); });
      inside.document.body.append(script);
    }
    postMessage(data) {
      this.ready.then(inside => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
