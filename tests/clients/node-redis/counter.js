// node-redis in cluster mode counts while the leader is killed; tests/clients/run.py says what it prints.
const { createCluster } = require("redis");

const rootNodes = process.env.HW_NODES.split(",").map((node) => ({ url: `redis://${node}` }));
const end = Date.now() + 1000 * Number(process.env.HW_SECONDS);
const cluster = createCluster({
  rootNodes,
  // What was not sent when a connection breaks is told, and not kept until the node is back.
  defaults: { disableOfflineQueue: true, socket: { reconnectStrategy: () => 50 } },
});
cluster.on("error", () => {});
cluster.on("node-error", () => {});

async function count(number, counts) {
  const key = `count:${process.pid}:${number}`;
  let acknowledged = 0;
  let unknown = 0;
  while (Date.now() < end) {
    try {
      await cluster.incr(key);
      acknowledged += 1;
      if (number === 0 && acknowledged === 1) console.log("counting");
    } catch (error) {
      if (!/^(MOVED|CLUSTERDOWN)/.test(error.message)) unknown += 1;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
  counts[key] = [acknowledged, unknown];
}

(async () => {
  await cluster.connect();
  const counts = {};
  await Promise.all([0, 1, 2, 3].map((number) => count(number, counts)));
  const key = `block:${process.pid}`;
  const block = await cluster.multi().incr(key).incrBy(key, 2).exec();
  if (block[1] !== 3) throw new Error(`a block came to ${JSON.stringify(block)}`);
  console.log(JSON.stringify(counts));
  cluster.destroy();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
