// ioredis in cluster mode counts while the leader is killed; tests/clients/run.py says what it prints.
const { Cluster } = require("ioredis");

const nodes = process.env.HW_NODES.split(",").map((node) => {
  const [host, port] = node.split(":");
  return { host, port: Number(port) };
});
const end = Date.now() + 1000 * Number(process.env.HW_SECONDS);
// 0: a lost reply is an unknown outcome, and not to be asked for again behind our back.
const cluster = new Cluster(nodes, {
  retryDelayOnFailover: 0,
  retryDelayOnClusterDown: 20,
  redisOptions: { autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 },
  clusterRetryStrategy: () => 50,
});
cluster.on("error", () => {});

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
  const counts = {};
  await Promise.all([0, 1, 2, 3].map((number) => count(number, counts)));
  const key = `block:${process.pid}`;
  const block = await cluster.multi().incr(key).incrby(key, 2).exec();
  if (block.some(([error]) => error) || block[1][1] !== 3) throw new Error(`a block came to ${JSON.stringify(block)}`);
  console.log(JSON.stringify(counts));
  cluster.disconnect();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
