package check

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// trial is the cell as the rules see it: some nodes, and jobs of the scheduler for them.
type trial struct {
	ctx       context.Context
	scheduler string
	kind      string // of the jobs
	namespace string
	patience  time.Duration
	jobs      ohmv1.JobsClient
	nodes     ohmv1.NodesClient
	insight   ohmv1.InsightClient
}

// attribute is what tells the nodes of a trial from all others, for its jobs and for those of
// other people, which simulated nodes are not for.
const attribute = "check"

func (t *trial) node(i int) string { return fmt.Sprintf("check-%s-%d", t.scheduler, i) }

func (t *trial) fleet() (all []*ohmv1.Node) {
	for i := range nodes {
		all = append(all, &ohmv1.Node{
			Name: t.node(i), Attributes: map[string]string{attribute: t.scheduler},
			Capacity: &ohmv1.Resources{CpuMilli: wholeNode, MemoryBytes: 8 << 30, DiskBytes: 8 << 30},
		})
	}
	return all
}

// job is one of one group, for the nodes of the trial.
func (t *trial) job(name string, count int, cpu int64) *ohmv1.JobSpec {
	j := &ohmv1.JobSpec{Namespace: t.namespace, Name: name, Kind: t.kind, Scheduler: t.scheduler, Groups: []*ohmv1.Group{{
		Name: "main", Count: int32(count), Command: []string{"true"}, Resources: &ohmv1.Resources{CpuMilli: cpu, MemoryBytes: 16 << 20},
		Constraints: []*ohmv1.Constraint{
			{Key: "hollow", Op: ohmv1.Operator_OPERATOR_IN, Values: []string{"true"}},
			{Key: attribute, Op: ohmv1.Operator_OPERATOR_IN, Values: []string{t.scheduler}},
		},
	}}}
	switch t.kind {
	case "system":
		j.Groups[0].Count = 0
	case "ml":
		j.Gang = &ohmv1.Gang{OnTimeout: "wait"}
	}
	return j
}

func level(precedence int32) *int32 { return proto.Int32(precedence) }

func (t *trial) submit(j *ohmv1.JobSpec) error {
	_, err := t.jobs.Submit(t.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{j}})
	return err
}

// full submits a job that fills some of the nodes, and waits until it does.
func (t *trial) full(name string, count int) error {
	if err := t.submit(t.job(name, count, wholeNode)); err != nil {
		return err
	}
	_, err := t.placed(name, count)
	return err
}

// until waits until ok; seen is what there is meanwhile.
func (t *trial) until(what string, ok func() (seen string, done bool, err error)) error {
	ctx, cancel := context.WithTimeout(t.ctx, t.patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		seen, done, err := ok()
		if err != nil || done {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if t.ctx.Err() != nil {
				return context.Cause(t.ctx)
			}
			return fmt.Errorf("not within %v: %s; %s", t.patience, what, seen)
		}
	}
}

// ready waits until all nodes have a session, and no job of an earlier trial is left.
func (t *trial) ready() error {
	if err := t.clear(); err != nil {
		return err
	}
	return t.until("the simulated nodes are ready", func() (string, bool, error) {
		up := 0
		for i := range nodes {
			if n, err := t.nodes.Get(t.ctx, &ohmv1.GetNodeRequest{Node: t.node(i)}); err == nil && n.GetState() == "Ready" {
				up++
			}
		}
		return fmt.Sprintf("%d of %d are", up, nodes), up == nodes, nil
	})
}

func (t *trial) tasks(job string, attempts bool) ([]*ohmv1.TaskView, error) {
	list, err := t.jobs.ListTasks(t.ctx, &ohmv1.ListTasksRequest{Namespace: t.namespace, Job: job, Attempts: attempts})
	return list.GetTasks(), err
}

// placed waits until all tasks of a job run, and looks at where: on nodes of the trial, each
// task once, by a transaction of the scheduler.
func (t *trial) placed(job string, count int) (tasks []*ohmv1.TaskView, err error) {
	err = t.until(fmt.Sprintf("all %d tasks of job %s run", count, job), func() (string, bool, error) {
		tasks, err = t.tasks(job, false)
		running := 0
		for _, v := range tasks {
			if v.GetState() == "Running" {
				running++
			}
		}
		return fmt.Sprintf("%d do", running), running == count, err
	})
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, v := range tasks {
		if seen[v.GetTask()] {
			return nil, fmt.Errorf("task %s is there twice", v.GetTask())
		}
		seen[v.GetTask()] = true
		if !t.own(v.GetNode()) {
			return nil, fmt.Errorf("task %s went to node %s, which its constraints rule out", v.GetTask(), v.GetNode())
		}
		txn, err := t.insight.GetTxn(t.ctx, &ohmv1.GetTxnRequest{Transaction: v.GetTransaction()})
		if err != nil {
			return nil, err
		}
		if txn.GetScheduler() != t.scheduler {
			return nil, fmt.Errorf("task %s was placed by scheduler %s", v.GetTask(), txn.GetScheduler())
		}
	}
	return tasks, nil
}

func (t *trial) own(node string) bool {
	for i := range nodes {
		if node == t.node(i) {
			return true
		}
	}
	return false
}

// explained waits until a job waits as a whole and is told why: one reason for each node.
func (t *trial) explained(job string) error {
	var e *ohmv1.ExplainResponse
	err := t.until(fmt.Sprintf("job %s waits, and is told why", job), func() (seen string, done bool, err error) {
		e, err = t.insight.Explain(t.ctx, &ohmv1.GetJobRequest{Namespace: t.namespace, Job: job})
		return fmt.Sprintf("it is %s: %s", e.GetState(), e.GetMessage()), len(e.GetGroups()) > 0 && len(e.GetGroups()[0].GetReasons()) > 0, err
	})
	if err != nil {
		return err
	}
	for _, g := range e.GetGroups() {
		sum, text := int32(0), ""
		for _, r := range g.GetReasons() {
			if r.GetReason() == "Unexplained" {
				return fmt.Errorf("job %s: no reason is given for %d of %d nodes", job, r.GetNodes(), g.GetNodes())
			}
			sum += r.GetNodes()
			text += fmt.Sprintf(" %s:%d", r.GetReason(), r.GetNodes())
		}
		if sum != g.GetNodes() || sum < nodes {
			return fmt.Errorf("job %s: the reasons%s are of %d nodes; %d were looked at, of at least %d", job, text, sum, g.GetNodes(), nodes)
		}
	}
	tasks, err := t.tasks(job, false)
	for _, v := range tasks {
		if v.GetNode() != "" {
			return fmt.Errorf("task %s is on node %s, and the job is said to wait", v.GetTask(), v.GetNode())
		}
	}
	return err
}

func (t *trial) drain(i int, drain bool) error {
	_, err := t.nodes.SetIntent(t.ctx, &ohmv1.SetIntentRequest{Node: t.node(i), Drain: proto.Bool(drain)})
	return err
}

func (t *trial) stop(jobs ...string) error {
	_, err := t.jobs.Stop(t.ctx, &ohmv1.StopJobsRequest{Namespace: t.namespace, Jobs: jobs, All: len(jobs) == 0})
	return err
}

// clear stops all jobs of the trial, and waits until nothing of them runs.
func (t *trial) clear() error {
	if err := t.stop(); err != nil {
		return err
	}
	return t.until("all jobs of the check have stopped", func() (string, bool, error) {
		tasks, err := t.tasks("", false)
		live := 0
		for _, v := range tasks {
			switch v.GetState() {
			case "Succeeded", "Failed", "Stopped", "Lost":
			default:
				if v.GetNode() != "" {
					live++
				}
			}
		}
		return fmt.Sprintf("%d tasks are left", live), live == 0, err
	})
}
