package lockservice

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redislockservice/redislockservice/internal/redistest"
)

func TestZZ(t *testing.T) {
	server := redistest.Start(t)
	svc, err := Open(t.Context(), server.URL(), WithLeaseTime(time.Second))
	if err != nil { t.Fatal(err) }
	defer svc.Close(context.Background())
	svc.WaitUntilReady(t.Context())
	n := 64
	if v := os.Getenv("ZN"); v != "" { n, _ = strconv.Atoi(v) }
	for round := range 5 {
	before := svc.lane.Statistics()
	var ops [256*64]int
	c0 := cpuOf()
	stop := time.Now().Add(time.Second)
	began := time.Now()
	var wg sync.WaitGroup
	for g := range n {
		wg.Go(func() {
			for time.Now().Before(stop) {
				svc.TryReadLock(context.Background(), []string{"each-"+os.Getenv("ZS")+strconv.Itoa(g)}, func(context.Context, HasLock) error { return nil })
				ops[g*64]++
			}
		})
	}
	wg.Wait()
	total := 0
	for g := range n { total += ops[g*64] }
	st := svc.lane.Statistics()
	ex := st.Exchanges-before.Exchanges
	c1 := cpuOf()
	fmt.Printf("client %.1f us/lock; ", (c1-c0)*1e6/float64(total))
	fmt.Println(round, "locks/s", float64(total)/time.Since(began).Seconds(), "exchanges", ex, "ops per exchange", 2*float64(total)/float64(ex), "us/exchange", time.Since(began).Seconds()*1e6/float64(ex), "conflicts", st.Conflicts-before.Conflicts)
	}
}

func cpuOf() float64 {
	var r syscall.Rusage
	syscall.Getrusage(0, &r)
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}
