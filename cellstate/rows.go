package cellstate

import (
	"iter"
	"slices"
	"strings"
)

// The rows of nodes and jobs stand in persistent tables: an edit copies the small page
// that a row is on, and only the first edit of a batch does, so that a snapshot costs
// what its batch touched and two snapshots share all the rest. Pages and rows carry the
// number of the batch that made them (stamp); the batch at work may write to its own.

const nodesPerPage = 8

// nodeTable holds the rows of nodes by number, in the order of their names. Nodes
// rarely come and go: then it is built anew.
type nodeTable struct {
	stamp uint64
	nodes *nodeNumbers // shared by all tables of the same nodes
	pages []*nodePage
}

// nodeNumbers are the numbers of a set of nodes.
type nodeNumbers struct{ of map[NodeName]int }

type nodePage struct {
	stamp uint64
	rows  [nodesPerPage]*Node
}

func newNodeTable(rows []*Node, stamp uint64) nodeTable {
	slices.SortFunc(rows, func(a, b *Node) int { return strings.Compare(string(a.Name), string(b.Name)) })
	t := nodeTable{stamp: stamp, nodes: &nodeNumbers{make(map[NodeName]int, len(rows))}}
	for i, n := range rows {
		t.nodes.of[n.Name] = i
		if i%nodesPerPage == 0 {
			t.pages = append(t.pages, &nodePage{stamp: stamp})
		}
		t.pages[i/nodesPerPage].rows[i%nodesPerPage] = n
	}
	return t
}

func (t *nodeTable) number(name NodeName) (i int, ok bool) {
	i, ok = t.nodes.of[name]
	return i, ok
}

func (t *nodeTable) at(i int) *Node { return t.pages[i/nodesPerPage].rows[i%nodesPerPage] }

func (t *nodeTable) get(name NodeName) *Node {
	if i, ok := t.number(name); ok {
		return t.at(i)
	}
	return nil
}

// set puts a row in the place of the one with its number.
func (t *nodeTable) set(i int, n *Node, stamp uint64) {
	if t.stamp != stamp {
		t.stamp, t.pages = stamp, slices.Clone(t.pages)
	}
	page := t.pages[i/nodesPerPage]
	if page.stamp != stamp {
		copied := *page
		copied.stamp = stamp
		page = &copied
		t.pages[i/nodesPerPage] = page
	}
	page.rows[i%nodesPerPage] = n
}

func (t *nodeTable) all() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for i := range len(t.nodes.of) {
			if !yield(t.pages[i/nodesPerPage].rows[i%nodesPerPage]) {
				return
			}
		}
	}
}

// changes are the rows that differ from those of an older table of the same nodes.
func (t *nodeTable) changes(since *nodeTable) iter.Seq2[int, *Node] {
	return func(yield func(int, *Node) bool) {
		for p, page := range t.pages {
			if page == since.pages[p] {
				continue
			}
			for i, n := range page.rows {
				if n != nil && n != since.pages[p].rows[i] && !yield(p*nodesPerPage+i, n) {
					return
				}
			}
		}
	}
}

const fan = 64

// jobTable holds the rows of jobs by hash, in two levels.
type jobTable struct {
	stamp uint64
	top   *[fan]*jobPage
}

type jobPage struct {
	stamp  uint64
	shards [fan]*jobShard
}

// jobShard holds rows at places that stay the same while a row is only replaced, with the
// hashes of their names, so that a search touches no other row.
type jobShard struct {
	stamp  uint64
	hashes []uint32
	jobs   []*Job
}

func newJobTable() jobTable {
	empty := &jobPage{}
	for i := range empty.shards {
		empty.shards[i] = &jobShard{}
	}
	t := jobTable{top: new([fan]*jobPage)}
	for i := range t.top {
		t.top[i] = empty
	}
	return t
}

// hash of a job's name (FNV-1a); its low bits say where the row stands.
func (j JobName) hash() uint32 {
	h := uint32(2166136261)
	for _, part := range [2]string{j.Namespace, j.Name} {
		for i := range len(part) {
			h = (h ^ uint32(part[i])) * 16777619
		}
		h = (h ^ '/') * 16777619
	}
	return h ^ h>>15
}

func home(hash uint32) (top, shard int) { return int(hash % fan), int(hash / fan % fan) }

func (s *jobShard) find(name JobName, hash uint32) int {
	for i, h := range s.hashes {
		if h == hash && s.jobs[i].Name == name {
			return i
		}
	}
	return -1
}

func (t *jobTable) get(name JobName) *Job {
	hash := name.hash()
	top, shard := home(hash)
	s := t.top[top].shards[shard]
	if i := s.find(name, hash); i >= 0 {
		return s.jobs[i]
	}
	return nil
}

// edit is the shard of a job, ready to be written to by the batch.
func (t *jobTable) edit(hash uint32, stamp uint64) *jobShard {
	if t.stamp != stamp {
		copied := *t.top
		t.stamp, t.top = stamp, &copied
	}
	top, shard := home(hash)
	page := t.top[top]
	if page.stamp != stamp {
		copied := *page
		copied.stamp = stamp
		page = &copied
		t.top[top] = page
	}
	s := page.shards[shard]
	if s.stamp != stamp {
		s = &jobShard{stamp, slices.Clone(s.hashes), slices.Clone(s.jobs)}
		page.shards[shard] = s
	}
	return s
}

func (t *jobTable) set(j *Job, stamp uint64) {
	hash := j.Name.hash()
	s := t.edit(hash, stamp)
	if i := s.find(j.Name, hash); i >= 0 {
		s.jobs[i] = j
	} else {
		s.hashes, s.jobs = append(s.hashes, hash), append(s.jobs, j)
	}
}

func (t *jobTable) remove(name JobName, stamp uint64) {
	hash := name.hash()
	s := t.edit(hash, stamp)
	i := s.find(name, hash)
	if i < 0 {
		return
	}
	last := len(s.jobs) - 1 // takes its place
	s.hashes[i], s.jobs[i] = s.hashes[last], s.jobs[last]
	s.jobs[last] = nil
	s.hashes, s.jobs = s.hashes[:last], s.jobs[:last]
}

// sorted are the jobs for which want holds, by namespace and name.
func (t *jobTable) sorted(want func(*Job) bool) []*Job {
	var jobs []*Job
	for _, page := range t.top {
		for _, s := range page.shards {
			for _, j := range s.jobs {
				if want(j) {
					jobs = append(jobs, j)
				}
			}
		}
	}
	slices.SortFunc(jobs, func(a, b *Job) int { return a.Name.compare(b.Name) })
	return jobs
}

func (j JobName) compare(o JobName) int {
	if c := strings.Compare(j.Namespace, o.Namespace); c != 0 {
		return c
	}
	return strings.Compare(j.Name, o.Name)
}

// changes are the rows that differ from those of an older table, as (was, is); nil
// stands for none.
func (t *jobTable) changes(since *jobTable) iter.Seq2[*Job, *Job] {
	return func(yield func(was, is *Job) bool) {
		for p, page := range t.top {
			if page == since.top[p] {
				continue
			}
			for i, now := range page.shards {
				then := since.top[p].shards[i]
				if now == then {
					continue
				}
				for i, is := range now.jobs {
					if i < len(then.jobs) && then.jobs[i] == is {
						continue
					}
					var was *Job
					if at := then.find(is.Name, now.hashes[i]); at >= 0 {
						was = then.jobs[at]
					}
					if was != is && !yield(was, is) {
						return
					}
				}
				for i, was := range then.jobs {
					if i < len(now.jobs) && now.hashes[i] == then.hashes[i] && now.jobs[i].Name == was.Name {
						continue
					}
					if now.find(was.Name, then.hashes[i]) < 0 && !yield(was, nil) {
						return
					}
				}
			}
		}
	}
}
