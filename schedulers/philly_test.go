package schedulers_test

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// philly is the gangs of Microsoft's Philly, of four virtual clusters together, on every sixteenth
// node of openb: sizes and order of arrival are the record's, run times are drawn from those of the same
// clusters. Arrivals come as much closer together as it takes for the gangs to ask for demand of
// the GPUs; and all times are faster times shorter, since schedulers do not wait.
type philly struct {
	gangs []gangRun
	nodes []celltest.Node
	gpus  int
}

const (
	phillyNodes  = 16
	phillyDemand = 0.9
	phillyFaster = 300
)

// gangRun is a gang of so many tasks with a GPU each.
type gangRun struct {
	name           cellstate.JobName
	size           int
	arrives, lasts time.Duration
	submitted      time.Time
	placed, ends   time.Time // zero: not yet
}

func rows(t *testing.T, file string, comma rune) [][]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma = comma
	all, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func readPhilly(t *testing.T, folder string) *philly {
	t.Helper()
	p := &philly{}
	for i, row := range rows(t, filepath.Join(folder, "openb", "openb_node_list_all_node.csv"), ',')[1:] {
		if i%phillyNodes != 0 {
			continue
		}
		gpus := int(number(t, row[3]))
		p.gpus += gpus
		p.nodes = append(p.nodes, celltest.Node{Name: row[0], CPU: int64(number(t, row[1])), Memory: int64(number(t, row[2])) << 20, GPUs: gpus, Model: row[4]})
	}
	times := rows(t, filepath.Join(folder, "philly", "philly_runtime.csv"), ',')[1:]
	traces, err := filepath.Glob(filepath.Join(folder, "gavel-philly", "*.trace"))
	if err != nil || len(traces) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	chance := rand.New(rand.NewPCG(1, 0))
	var asked, last float64 // seconds of GPUs; the last arrival
	for _, file := range traces {
		for _, row := range rows(t, file, '\t') {
			g := gangRun{size: int(number(t, row[3]))}
			at, lasts := number(t, row[2]), max(1, number(t, times[chance.IntN(len(times))][0]))
			asked, last = asked+lasts*float64(g.size), max(last, at)
			g.arrives, g.lasts = time.Duration(at*float64(time.Second)), time.Duration(lasts*float64(time.Second)/phillyFaster)
			p.gangs = append(p.gangs, g)
		}
	}
	slices.SortStableFunc(p.gangs, func(a, b gangRun) int { return cmp.Compare(a.arrives, b.arrives) })
	closer := asked / (phillyDemand * float64(p.gpus)) / last / phillyFaster
	for i := range p.gangs {
		p.gangs[i].name = celltest.Name(fmt.Sprintf("g%04d", i))
		p.gangs[i].arrives = time.Duration(float64(p.gangs[i].arrives) * closer)
	}
	return p
}

// Every gang of Philly runs, whole from its first revision to its last, whatever two schedulers that
// place half of them each do at once; none waits for ever. What is logged is one line of JSON: how long
// gangs waited for their nodes, in seconds of the record, by their size.
func TestPhilly(t *testing.T) {
	folder := os.Getenv("OHM_TRACES")
	if folder == "" {
		t.Skip("TestPhilly needs real traces: set OHM_TRACES")
	}
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		p := readPhilly(t, folder)
		cell.Up(p.nodes...)
		mirror := cell.Run("ml", "i", ml.New()).Mirror
		cell.Run("other", "i", ml.New())
		began := time.Now()
		var live []*gangRun
		for next := 0; next < len(p.gangs) || len(live) > 0; {
			now := time.Now()
			for ; next < len(p.gangs) && now.Sub(began) >= p.gangs[next].arrives; next++ {
				g := &p.gangs[next]
				g.submitted = now
				cell.Put(cellstate.Record{Key: cellstate.JobKey(g.name), Value: g.record(next)})
				live = append(live, g)
			}
			s, newer := mirror.Watch()
			var wake time.Time
			if next < len(p.gangs) {
				wake = began.Add(p.gangs[next].arrives)
			}
			live = slices.DeleteFunc(live, func(g *gangRun) bool { return g.follow(t, cell, s, now) })
			for _, g := range live {
				if !g.ends.IsZero() && (wake.IsZero() || g.ends.Before(wake)) {
					wake = g.ends
				}
			}
			if wake.IsZero() {
				wake = now.Add(time.Hour) // nothing runs: one of those that wait is to start within it
			}
			timer := time.NewTimer(wake.Sub(now))
			select {
			case <-newer:
			case <-timer.C:
				if len(live) > 0 && next == len(p.gangs) && !slices.ContainsFunc(live, func(g *gangRun) bool { return !g.ends.IsZero() }) {
					t.Fatalf("%d gangs wait and nothing runs", len(live))
				}
			}
			timer.Stop()
		}
		schedtest.Audited(t, cell.Store, nil)
		report, err := json.Marshal(p.report(time.Since(began)))
		if err != nil {
			t.Fatal(err)
		}
		t.Log(string(report))
	})
}

func (g *gangRun) record(i int) *ohmv1.Job {
	spec := celltest.Job{Name: g.name.Name, Kind: "ml", Scheduler: []string{"ml", "other"}[i%2], Gang: true, Count: g.size, CPU: 4000, Memory: 16 << 30, GPUs: 1}
	return &ohmv1.Job{Spec: spec.Proto(), Version: 1, SubmitTime: timestamppb.New(g.submitted)}
}

// follow sees whether the gang has been placed, and ends it when its time is over. It says whether it is.
func (g *gangRun) follow(t *testing.T, cell *schedtest.Cell, s *cellstate.Snapshot, now time.Time) bool {
	t.Helper()
	if s == nil || s.Job(g.name) == nil || len(s.Job(g.name).Tasks) == 0 { // nothing has been seen yet
		return false
	}
	row := s.Job(g.name)
	if g.ends.IsZero() {
		if n := schedtest.Placed(s, g.name.Name); n != g.size {
			t.Fatalf("%d of %d of %s are placed", n, g.size, g.name)
		}
		g.placed = row.Tasks[0].Placement.GetTime().AsTime()
		g.ends = g.placed.Add(g.lasts)
	}
	if g.ends.After(now) {
		return false
	}
	var records []cellstate.Record
	for _, tk := range row.Tasks {
		records = append(records, cellstate.ReleaseRecords(tk, celltest.StatusOf(tk.Placement, task.Succeeded))...)
	}
	out, err := cell.Store.Commit(context.Background(), cellstate.Write{Records: records})
	if err != nil || out.Applied[0] == 0 {
		t.Fatalf("the end of %s: %v, %v", g.name, out, err)
	}
	return true
}

// wait is of the gangs of one size.
type wait struct {
	Gangs int     `json:"gangs"`
	P50   float64 `json:"p50_s"`
	P99   float64 `json:"p99_s"`
}

func (p *philly) report(took time.Duration) any {
	by := map[int][]time.Duration{}
	for _, g := range p.gangs {
		by[g.size] = append(by[g.size], g.placed.Sub(g.submitted))
	}
	seconds := func(d time.Duration) float64 {
		return float64((d * phillyFaster).Round(100*time.Millisecond)) / float64(time.Second)
	}
	waits := map[string]wait{}
	for _, size := range slices.Sorted(maps.Keys(by)) {
		w := by[size]
		slices.Sort(w)
		waits[strconv.Itoa(size)] = wait{len(w), seconds(w[len(w)/2]), seconds(w[(len(w)*99+99)/100-1])}
	}
	return map[string]any{
		"gangs": len(p.gangs), "nodes": len(p.nodes), "gpus": p.gpus, "demand": phillyDemand, "faster": phillyFaster,
		"days": float64(int(took.Hours()*phillyFaster/24*10)) / 10, "wait": waits,
	}
}
