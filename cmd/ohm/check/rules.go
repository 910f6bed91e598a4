package check

import (
	"fmt"
	"slices"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Rules are all of them, in the order in which they are tried.
func Rules() []Rule {
	placing := []string{"batch", "service", "ml"} // tasks that may go to one node or another
	return []Rule{
		{"places", "what fits is placed, each task once", nil, places},
		{"constraints", "a task goes only where its constraints let it", placing, constraints},
		{"drained", "a drained node gets nothing", placing, drained},
		{"waits", "what fits nowhere waits, with reasons that add up to the number of nodes", placing, waits},
		{"passes-over", "what can never be placed holds up nobody, though it be more important", placing, passesOver},
		{"room", "what waits is placed when there is room", []string{"batch", "service"}, room},
		{"gang", "a gang is placed whole, in one atomic transaction, or not at all", []string{"ml"}, gang},
		{"again", "a task that failed, and may be tried again, is", []string{"batch"}, again},
		{"answers", "it says of one node why a task does not go there, and how it decided on a transaction", placing, answers},
	}
}

func places(t *trial) error {
	count := 2 * nodes
	if t.kind == "system" {
		count = nodes
	}
	j := t.job("fits", count, wholeNode/2)
	if err := t.submit(j); err != nil {
		return err
	}
	_, err := t.placed("fits", count)
	return err
}

func constraints(t *trial) error {
	j := t.job("one-node", 1, 100)
	j.Groups[0].Constraints = append(j.Groups[0].Constraints, &ohmv1.Constraint{Key: "node", Op: ohmv1.Operator_OPERATOR_IN, Values: []string{t.node(1)}})
	if err := t.submit(j); err != nil {
		return err
	}
	tasks, err := t.placed("one-node", 1)
	if err == nil && tasks[0].GetNode() != t.node(1) {
		err = fmt.Errorf("the task may go to %s only, and went to %s", t.node(1), tasks[0].GetNode())
	}
	return err
}

func drained(t *trial) error {
	if err := t.drain(0, true); err != nil {
		return err
	}
	defer func() { _ = t.drain(0, false) }()
	if err := t.submit(t.job("elsewhere", nodes-1, wholeNode)); err != nil {
		return err
	}
	tasks, err := t.placed("elsewhere", nodes-1)
	for _, v := range tasks {
		if v.GetNode() == t.node(0) {
			return fmt.Errorf("%s went to %s, which is drained", v.GetTask(), v.GetNode())
		}
	}
	return err
}

func waits(t *trial) error {
	if err := t.submit(t.job("too-large", 1, 16*wholeNode)); err != nil {
		return err
	}
	return t.explained("too-large")
}

func passesOver(t *trial) error {
	large, small := t.job("too-large", 1, 16*wholeNode), t.job("small", 1, 100)
	large.Precedence, small.Precedence = level(150), level(100)
	if err := t.submit(large); err != nil {
		return err
	}
	if err := t.explained("too-large"); err != nil {
		return err
	}
	if err := t.submit(small); err != nil {
		return err
	}
	_, err := t.placed("small", 1)
	return err
}

func room(t *trial) error {
	if err := t.full("filler", nodes); err != nil {
		return err
	}
	if err := t.submit(t.job("next", 1, wholeNode)); err != nil {
		return err
	}
	if err := t.explained("next"); err != nil {
		return err
	}
	if err := t.stop("filler"); err != nil {
		return err
	}
	_, err := t.placed("next", 1)
	return err
}

func gang(t *trial) error {
	if err := t.full("filler", 1); err != nil {
		return err
	}
	if err := t.submit(t.job("gang", nodes, wholeNode)); err != nil {
		return err
	}
	if err := t.explained("gang"); err != nil {
		return err
	}
	if err := t.stop("filler"); err != nil {
		return err
	}
	tasks, err := t.placed("gang", nodes)
	if err != nil {
		return err
	}
	txn, err := t.insight.GetTxn(t.ctx, &ohmv1.GetTxnRequest{Transaction: tasks[0].GetTransaction()})
	switch {
	case err != nil:
		return err
	case txn.GetMode() != "atomic" || len(txn.GetCommitted()) != nodes:
		return fmt.Errorf("the gang of %d came in a transaction of mode %s with %d claims", nodes, txn.GetMode(), len(txn.GetCommitted()))
	}
	return nil
}

func again(t *trial) error {
	j := t.job("fails", 2, 100)
	j.Retries = 1
	j.Groups[0].Env = map[string]string{"HOLLOW_SECONDS": "0.1", "HOLLOW_EXIT": "1"}
	if err := t.submit(j); err != nil {
		return err
	}
	return t.until("each of 2 tasks has failed twice", func() (string, bool, error) {
		tasks, err := t.tasks("fails", true)
		failed := 0
		for _, v := range tasks {
			if v.GetState() == "Failed" {
				failed++
			}
		}
		return fmt.Sprintf("%d attempts have failed", failed), failed == 4, err
	})
}

func answers(t *trial) error {
	if err := t.full("fills", nodes); err != nil {
		return err
	}
	tasks, err := t.placed("fills", nodes)
	if err != nil {
		return err
	}
	d, err := t.insight.ExplainTxn(t.ctx, &ohmv1.GetTxnRequest{Transaction: tasks[0].GetTransaction()})
	switch {
	case err != nil:
		return err
	case d.GetSource() != "log" || !slices.ContainsFunc(d.GetChosen(), func(c *ohmv1.ChosenNode) bool {
		return c.GetTask() == tasks[0].GetTask() && c.GetNode() == tasks[0].GetNode()
	}):
		return fmt.Errorf("of the transaction that placed %s on %s it says %v", tasks[0].GetTask(), tasks[0].GetNode(), d)
	}
	if err := t.submit(t.job("asked", 1, wholeNode)); err != nil {
		return err
	}
	if err := t.explained("asked"); err != nil {
		return err
	}
	n, err := t.insight.ExplainNode(t.ctx, &ohmv1.ExplainNodeRequest{Namespace: t.namespace, Job: "asked", Node: t.node(0)})
	switch {
	case err != nil:
		return err
	case len(n.GetGroups()) != 1 || n.GetGroups()[0].GetFits() || len(n.GetGroups()[0].GetRefusals()) == 0:
		return fmt.Errorf("of %s, which is full, it says %v", t.node(0), n.GetGroups())
	}
	return nil
}
