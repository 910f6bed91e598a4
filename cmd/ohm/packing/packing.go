package packing

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cmd/ohm/openb"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Config of a comparison.
type Config struct {
	Traces   string // folder that holds openb/
	Seeds    int
	Progress func(done, all int) // from several goroutines
}

// Row is what one contender makes of the recorded cell. GPUs are in percent of all.
type Row struct {
	Policy       string             `json:"policy"`
	FileOrder    float64            `json:"file_order_gpu_percent"`
	FirstRefused int                `json:"file_order_first_refused"`
	Shuffled     float64            `json:"shuffled_gpu_percent"` // to 130%, mean of the seeds
	Variants     map[string]float64 `json:"variants_gpu_percent"`
	NodesMedian  float64            `json:"nodes_needed_median_percent"` // for 60% of the list, of which 0.2% may wait
	NodesMost    float64            `json:"nodes_needed_p90_percent"`
	Eight        float64            `json:"eight_gpu_percent"` // eight instances, whose views are up to 100 decisions old
	Conflicts    float64            `json:"eight_conflicts_per_commit"`
	Three        float64            `json:"three_schedulers_gpu_percent"` // the same, of three schedulers, each with its own kind of tasks
	ThreeLost    float64            `json:"three_schedulers_conflicts_per_commit"`
	Steady       float64            `json:"steady_gpu_percent"`     // in use, in the mean, while tasks come and go that want 90%
	Gone         float64            `json:"steady_refused_percent"` // of the GPU time that is asked for then
	Decision     float64            `json:"decision_microseconds"`
	Decision50k  float64            `json:"decision_50000_nodes_microseconds"` // Ohm's own alone, the first tasks of an empty cell

	Curve []point `json:"-"`
}

// Report is the whole comparison.
type Report struct {
	Nodes int   `json:"nodes"`
	Tasks int   `json:"tasks"`
	Seeds int   `json:"seeds"`
	Rows  []Row `json:"rows"`
}

// record is what is read of the trace.
type record struct {
	nodes    []*ohmv1.Node
	list     []openb.Task            // the default one
	variants map[string][]openb.Task // by name
}

func read(folder string) (*record, error) {
	const prefix = "openb_pod_list_"
	r := &record{variants: map[string][]openb.Task{}}
	var err error
	if r.nodes, err = openb.ReadNodes(filepath.Join(folder, "openb", "openb_node_list_all_node.csv")); err != nil {
		return nil, fmt.Errorf("the comparison needs the trace openb: %w", err)
	}
	for _, n := range r.nodes {
		n.Attributes = map[string]string{"hollow": "true"} // which the record's tasks ask for
	}
	files, err := filepath.Glob(filepath.Join(folder, "openb", prefix+"*.csv"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		tasks, err := openb.ReadTasks(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), prefix), ".csv")
		if name == "default" {
			r.list = tasks.Tasks
		} else {
			r.variants[name] = tasks.Tasks
		}
	}
	if len(r.list) == 0 {
		return nil, fmt.Errorf("the comparison needs the trace openb: no %sdefault.csv in %s", prefix, filepath.Join(folder, "openb"))
	}
	return r, nil
}

// Run compares all contenders, as many trials at a time as there are cores. What is timed runs
// alone, at the end.
func Run(ctx context.Context, c Config) (*Report, error) {
	r, err := read(c.Traces)
	if err != nil {
		return nil, err
	}
	report := &Report{Nodes: len(r.nodes), Tasks: len(r.list), Seeds: c.Seeds, Rows: make([]Row, len(contenders()))}
	var trials []func() error
	for i, of := range contenders() {
		report.Rows[i] = Row{Policy: of.name, Variants: map[string]float64{}}
		trials = append(trials, r.trials(&report.Rows[i], of, c.Seeds)...)
	}
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for _, trial := range trials {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := trial()
			c.Progress(int(done.Add(1)), len(trials))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, of := range contenders() {
		if err := r.time(&report.Rows[i], of); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// trials are those of one contender, independent of each other; each writes what is its own of the row.
func (r *record) trials(row *Row, of contender, seeds int) []func() error {
	var mu sync.Mutex // guards the lists and the map
	var shuffled, nodes []float64
	note := func(of *[]float64, value float64) {
		mu.Lock()
		defer mu.Unlock()
		*of = append(*of, value)
		row.Shuffled = mean(shuffled)
		row.NodesMedian, row.NodesMost = median(nodes)
	}
	trials := []func() error{
		func() error {
			out, err := fill(r.nodes, r.list, of, alone, together)
			row.FileOrder, row.FirstRefused, row.Curve = out.gpus, out.first, out.curve
			return err
		},
		func() (err error) {
			row.Eight, row.Conflicts, err = r.eight(of, 1)
			return err
		},
		func() (err error) {
			row.Three, row.ThreeLost, err = r.eight(of, len(kinds))
			return err
		},
	}
	if slices.ContainsFunc(r.list, func(t openb.Task) bool { return t.Lasts > 0 }) {
		trials = append(trials, func() error {
			out, err := steady(r.nodes, r.list, of, 1)
			row.Steady, row.Gone = out.used, out.refused
			return err
		})
	}
	for name, list := range r.variants {
		trials = append(trials, func() error {
			out, err := fill(r.nodes, list, of, alone, together)
			mu.Lock()
			defer mu.Unlock()
			row.Variants[name] = out.gpus
			return err
		})
	}
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		trials = append(trials, func() error {
			out, err := fill(r.nodes, openb.Shuffle(r.list, seed, 1.3), of, alone, together)
			note(&shuffled, out.gpus)
			return err
		}, func() error {
			part, err := needed(shuffle(r.nodes, seed), openb.Shuffle(r.list, seed, 0.6), of, 0.002)
			note(&nodes, part)
			return err
		})
	}
	return trials
}

// eight is what eight instances of so many schedulers make of the list, with views that are up
// to 100 decisions old: one such fill is a matter of luck, so it is the mean of a few.
func (r *record) eight(of contender, schedulers int) (gpus, conflicts float64, err error) {
	ages := []int{70, 80, 90, 100}
	for _, age := range ages {
		out, err := fill(r.nodes, r.list, of, homes(8, schedulers), age)
		if err != nil {
			return 0, 0, err
		}
		gpus, conflicts = gpus+out.gpus/float64(len(ages)), conflicts+out.conflicts/float64(len(ages))
	}
	return gpus, conflicts, nil
}

// time measures decisions, with nothing else at work.
func (r *record) time(row *Row, of contender) error {
	out, err := fill(r.nodes, r.list, of, alone, together)
	row.Decision = microseconds(out.decision)
	if err != nil || of.scorer != nil {
		return err
	}
	out, err = fill(r.many(), openb.Shuffle(r.list, 1, 1), of, alone, together)
	row.Decision50k = microseconds(out.decision)
	return err
}

// times the recorded cell is 50,000 nodes.
const times = 33

// many are the recorded nodes so many times.
func (r *record) many() (nodes []*ohmv1.Node) {
	for i := range times {
		for _, n := range r.nodes {
			n = proto.CloneOf(n)
			n.Name = fmt.Sprintf("%s-%d", n.GetName(), i)
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func shuffle(nodes []*ohmv1.Node, seed uint64) []*ohmv1.Node {
	nodes = slices.Clone(nodes)
	rand.New(rand.NewPCG(seed, 2)).Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	return nodes
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}

// median and the ninth tenth of some values; 0 of none.
func median(values []float64) (half, most float64) {
	if len(values) == 0 {
		return 0, 0
	}
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2], values[min(len(values)-1, len(values)*9/10)]
}
