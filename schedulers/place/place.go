// Package place chooses nodes for the policies: it filters, scores and remembers.
//
// A Table holds a Candidate for each node of a snapshot, in the order of their names, and
// follows from one snapshot to the next by the rows that changed. A Round is the use of a
// Table for one call of a policy: it lays what the call has claimed so far over the
// snapshot, so that later choices see it.
//
// Whether a node can take a task is said by the filters, each a small named part; how
// good it would be, by a Scorer. Identical tasks are one class. A class keeps the score
// of each node in a tree, of which the root is the best one, and when it is used again
// it asks only about the nodes that have changed since: a choice costs no walk over the
// nodes. Nodes that a rule of the round puts last (a request under way, enough tasks of
// the same job) are masked in the tree for as long. Nothing that is remembered changes a
// choice: it depends on the input alone.
//
// The filters must agree with cellstate.Validate, which has the last word at the
// commit, and add to it what only a choice needs: that the node has a live session,
// and that a simulated node is asked for by name.
package place

// Filter is one condition on a node.
type Filter interface {
	// Name is the reason under which refused nodes are counted.
	Name() string
	// Check judges c as it is given; why names the dimension that fails, if there is one.
	Check(r *Request, c *Candidate) (why string, ok bool)
}

// Scorer compares nodes that pass all filters.
type Scorer interface {
	Name() string
	// Score says how good c would be, in thousandths of a GPU: the higher the better.
	Score(r *Request, c *Candidate) float64
}
