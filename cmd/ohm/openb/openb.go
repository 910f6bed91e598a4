// Package openb reads the lists of the Alibaba GPU cluster trace of 2023, openb: CSV files
// of machines and of tasks in the order of their arrival.
package openb

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

const mib = 1 << 20

// table is a CSV file with a header line.
type table struct {
	file   string
	column map[string]int
	rows   *csv.Reader
	row    []string
	line   int
	err    error
}

func openTable(file string, r io.Reader, required ...string) (*table, error) {
	t := &table{file: file, column: map[string]int{}, rows: csv.NewReader(r)}
	t.rows.ReuseRecord = true
	header, err := t.rows.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: not a CSV file with a header line: %w", file, err)
	}
	for i, name := range header {
		t.column[strings.TrimSpace(name)] = i
	}
	for _, name := range required {
		if !t.has(name) {
			return nil, fmt.Errorf("%s:1: column %q is missing; it has %s", file, name, strings.Join(header, ", "))
		}
	}
	return t, nil
}

func (t *table) has(name string) bool { _, ok := t.column[name]; return ok }

// next reads a row; false at the end and after an error.
func (t *table) next() bool {
	if t.err != nil {
		return false
	}
	row, err := t.rows.Read()
	if errors.Is(err, io.EOF) {
		return false
	}
	if err != nil {
		t.err = fmt.Errorf("%s: %w", t.file, err)
		return false
	}
	t.row = row
	t.line, _ = t.rows.FieldPos(0)
	return true
}

// text is a column of the row; "" where the file does not have it.
func (t *table) text(name string) string {
	if i, ok := t.column[name]; ok {
		return strings.TrimSpace(t.row[i])
	}
	return ""
}

// number is a column that must hold a number that is not negative.
func (t *table) number(name string) int64 {
	n, err := strconv.ParseInt(t.text(name), 10, 64)
	if (err != nil || n < 0) && t.err == nil {
		t.err = fmt.Errorf("%s:%d: %s %q is not a number of 0 or more", t.file, t.line, name, t.text(name))
	}
	return n
}

// ReadNodes reads a machine list in the form of openb: sn, cpu_milli, memory_mib, gpu,
// model.
func ReadNodes(file string) ([]*ohmv1.Node, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := openTable(file, f, "sn", "cpu_milli", "memory_mib", "gpu", "model")
	if err != nil {
		return nil, err
	}
	var nodes []*ohmv1.Node
	for t.next() {
		n := &ohmv1.Node{
			Name:     t.text("sn"),
			Capacity: &ohmv1.Resources{CpuMilli: t.number("cpu_milli"), MemoryBytes: t.number("memory_mib") * mib},
		}
		for i := range t.number("gpu") {
			n.Gpus = append(n.Gpus, &ohmv1.Device{Id: fmt.Sprintf("gpu%d", i), Model: t.text("model")})
		}
		nodes = append(nodes, n)
	}
	return nodes, t.err
}

// Tasks of a record, and what had to be assumed because the file does not say it.
type Tasks struct {
	Tasks   []Task
	Notices []string
}

// Task is one line of a record: a job of one task.
type Task struct {
	Job   *ohmv1.JobSpec
	Lasts time.Duration // from when it was scheduled, or else created, until it was deleted; 0: the file does not say
}

// ReadTasks reads a task list in the form of openb.
func ReadTasks(file string) (*Tasks, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := openTable(file, f, "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
	if err != nil {
		return nil, err
	}
	out := &Tasks{}
	for column, meaning := range map[string]string{"qos": "every task counts as LS", "gpu_spec": "no task is bound to a GPU model"} {
		if !t.has(column) {
			out.Notices = append(out.Notices, fmt.Sprintf("%s has no column %s: %s", file, column, meaning))
		}
	}
	for t.next() {
		out.Tasks = append(out.Tasks, Task{t.job(), t.lasts()})
	}
	return out, t.err
}

// Shuffle puts tasks into an order that the seed decides (0: as they are), and takes of that
// order so many times all of them: 1.3 is all, and then the first three tenths once more under names of their
// own; 0.6 the first six tenths.
func Shuffle(tasks []Task, seed uint64, times float64) []Task {
	var out []Task
	shuffled := slices.Clone(tasks)
	if seed != 0 {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	}
	for n := range int(times * float64(len(tasks))) {
		t := shuffled[n%len(tasks)]
		if round := n / len(tasks); round > 0 {
			t.Job = proto.CloneOf(t.Job)
			t.Job.Name = fmt.Sprintf("%s-%d", t.Job.GetName(), round+1)
		}
		out = append(out, t)
	}
	return out
}

// precedence is that of every task: none takes another's place.
const precedence = 100

// lasts is how long the row's task was there.
func (t *table) lasts() time.Duration {
	if t.text("deletion_time") == "" {
		return 0
	}
	from := "creation_time"
	if t.text("scheduled_time") != "" {
		from = "scheduled_time"
	}
	return max(0, time.Duration(t.number("deletion_time")-t.number(from))*time.Second)
}

// job is the row's task: several GPUs make it ml's, else the quality of service decides
// between service and batch.
func (t *table) job() *ohmv1.JobSpec {
	kind := "service"
	qos := t.text("qos")
	if qos == "BE" || qos == "Burstable" {
		kind = "batch"
	}
	group := &ohmv1.Group{
		Name: "main", Count: 1, Command: []string{"hollow"},
		Resources:   &ohmv1.Resources{CpuMilli: t.number("cpu_milli"), MemoryBytes: t.number("memory_mib") * mib},
		Constraints: []*ohmv1.Constraint{{Key: "hollow", Op: ohmv1.Operator_OPERATOR_EXISTS}},
	}
	if gpus := t.number("num_gpu"); gpus > 0 {
		group.Gpus = &ohmv1.GPURequest{Count: int32(gpus)}
		if spec := t.text("gpu_spec"); spec != "" {
			group.Gpus.Models = strings.Split(spec, "|")
		}
		if milli := t.number("gpu_milli"); gpus == 1 && milli < 1000 {
			group.Gpus.ShareMilli = int32(milli)
		}
		if gpus > 1 {
			kind = "ml"
		}
	}
	return &ohmv1.JobSpec{Namespace: "default", Name: t.text("name"), Kind: kind, Scheduler: kind, Precedence: proto.Int32(precedence), Groups: []*ohmv1.Group{group}}
}
