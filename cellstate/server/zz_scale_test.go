package server_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
)

func TestZZScale(t *testing.T) {
	w := serve(t, nil)
	const nodes, per = 1000, 10
	start := time.Now()
	agents := make([]*agent, nodes)
	var g sync.WaitGroup
	for i := range nodes {
		g.Go(func() { agents[i] = w.attach(fmt.Sprintf("n%d", i), "x") })
	}
	g.Wait()
	fmt.Println("attached", time.Since(start))
	w.submit(celltest.Job{Name: "a", CPU: 10, Count: nodes * per})
	s := w.cell.Snapshot()
	var claims []cellstate.Claim
	for i := range nodes * per {
		claims = append(claims, celltest.Claim(s, celltest.Slot(s, celltest.Name("a"), "main", i), cellstate.NodeName(fmt.Sprintf("n%d", i%nodes))))
	}
	start = time.Now()
	for i := 0; i < len(claims); i += 1000 {
		txn := celltest.Txn(s, cellstate.Incremental, claims[i:i+1000]...)
		if _, err := w.mirror.Commit(w.ctx, txn); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("committed", time.Since(start))
	start = time.Now()
	for _, a := range agents {
		g.Go(func() { a.until("x", func() bool { return len(a.want) == per }) })
	}
	g.Wait()
	fmt.Println("assigned", time.Since(start))
	start = time.Now()
	for _, st := range []task.State{task.Running, task.Succeeded} {
		for _, a := range agents {
			g.Go(func() {
				for _, x := range a.want {
					a.report(state(x, st))
				}
			})
		}
		g.Wait()
	}
	for _, a := range agents {
		g.Go(func() { a.until("x", func() bool { return len(a.want) == 0 }) })
	}
	g.Wait()
	fmt.Println("all reported and released", time.Since(start))
}
