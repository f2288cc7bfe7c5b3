// jedis in cluster mode counts while the leader is killed; tests/clients/run.py says what it prints.
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.exceptions.JedisException;

public class Counter {
    private static final AtomicBoolean BEGUN = new AtomicBoolean();

    public static void main(String[] args) throws Exception {
        Set<HostAndPort> nodes =
            Stream.of(System.getenv("HW_NODES").split(",")).map(HostAndPort::from).collect(Collectors.toSet());
        long end = System.nanoTime() + (long) (1e9 * Double.parseDouble(System.getenv("HW_SECONDS")));
        Map<String, long[]> counts = new ConcurrentSkipListMap<>();
        // It repeats on broken connections as on MOVED, and has one number for both: one try and one more for MOVED, so an increment may
        // count twice when a connection breaks. Each try that fails is counted as two unknown ones.
        try (JedisCluster cluster = new JedisCluster(nodes, DefaultJedisClientConfig.builder().build(), 2)) {
            Thread[] threads = new Thread[4];
            for (int number = 0; number < threads.length; number++) {
                String key = "count:" + ProcessHandle.current().pid() + ":" + number;
                threads[number] = new Thread(() -> counts.put(key, count(cluster, key, end)));
                threads[number].start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
        }
        System.out.println(
            counts.entrySet().stream()
                .map(entry -> "\"" + entry.getKey() + "\":[" + entry.getValue()[0] + "," + entry.getValue()[1] + "]")
                .collect(Collectors.joining(",", "{", "}")));
    }

    private static long[] count(JedisCluster cluster, String key, long end) {
        long acknowledged = 0;
        long unknown = 0;
        long last = 0;
        while (System.nanoTime() < end) {
            try {
                long sum = cluster.incr(key);
                acknowledged++;
                if (BEGUN.compareAndSet(false, true)) {
                    System.out.println("counting");
                    System.out.flush();
                }
                // One that was repeated, and counted twice, shows here.
                if (sum > last + 1) {
                    unknown += sum - last - 1;
                }
                last = sum;
            } catch (JedisException error) {
                unknown += 2;
                pause();
            }
        }
        return new long[] {acknowledged, unknown};
    }

    private static void pause() {
        try {
            Thread.sleep(20);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
