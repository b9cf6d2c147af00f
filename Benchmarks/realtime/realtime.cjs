// What realtime listen does, with the official JavaScript SDK as one file: node realtime.cjs SDK URL listen PATH KIND
const [sdk, url, , path, kind] = process.argv.slice(2);
const { initializeApp, getDatabase, ref, onValue, onChildAdded, onChildChanged } = require(sdk);
const start = process.hrtime.bigint();
const place = ref(getDatabase(initializeApp({ databaseURL: url, projectId: "bench" })), path);
let count = 0, wanted = Infinity;
function say() {
  const usage = process.cpuUsage();
  console.log(JSON.stringify({ events: count, micros: Number((process.hrtime.bigint() - start) / 1000n),
    processor_micros: usage.user + usage.system, resident: process.memoryUsage().rss }));
}
function add() { if (++count === wanted) say(); }
if (kind === "value") onValue(place, (snapshot) => { if (snapshot.exists()) add(); });
else { onChildAdded(place, add); onChildChanged(place, add); }
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  wanted = Number(line);
  if (count >= wanted) say();
}).on("close", () => process.exit(0));
