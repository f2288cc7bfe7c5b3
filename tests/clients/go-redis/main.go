// go-redis in cluster mode counts while the leader is killed; tests/clients/run.py says what it prints.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

func nothingDone(err error) bool {
	return strings.HasPrefix(err.Error(), "MOVED ") || strings.HasPrefix(err.Error(), "CLUSTERDOWN ")
}

func main() {
	ctx := context.Background()
	seconds, err := strconv.ParseFloat(os.Getenv("HW_SECONDS"), 64)
	if err != nil {
		panic(err)
	}
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	// It repeats on broken connections as on MOVED, and has one number for both: none of it, and we follow by ourselves.
	options := redis.ClusterOptions{Addrs: strings.Split(os.Getenv("HW_NODES"), ","), MaxRedirects: -1, MaxRetries: -1}
	client := redis.NewClusterClient(&options)
	defer client.Close()

	var lock sync.Mutex
	var all sync.WaitGroup
	var begun sync.Once
	counts := map[string][2]int{}
	for number := 0; number < 4; number++ {
		all.Add(1)
		go func(key string) {
			defer all.Done()
			acknowledged, unknown := 0, 0
			for time.Now().Before(end) {
				err := client.Incr(ctx, key).Err()
				if err == nil {
					acknowledged++
					begun.Do(func() { fmt.Println("counting") })
					continue
				}
				if !nothingDone(err) {
					unknown++
				}
				client.ReloadState(ctx)
				time.Sleep(20 * time.Millisecond)
			}
			lock.Lock()
			counts[key] = [2]int{acknowledged, unknown}
			lock.Unlock()
		}(fmt.Sprintf("count:%d:%d", os.Getpid(), number))
	}
	all.Wait()

	// A client as it comes follows the leader by itself.
	usual := redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(os.Getenv("HW_NODES"), ",")})
	defer usual.Close()
	key := fmt.Sprintf("block:%d", os.Getpid())
	block := usual.TxPipeline()
	block.Incr(ctx, key)
	sum := block.IncrBy(ctx, key, 2)
	if _, err := block.Exec(ctx); err != nil || sum.Val() != 3 {
		panic(fmt.Sprint("a block came to ", sum.Val(), err))
	}
	text, _ := json.Marshal(counts)
	fmt.Println(string(text))
}
