package cellstate

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Reader makes changes of the bytes that a store sends. Records that follow each other have
// much in common; a reader keeps of it what it has seen last, so that there is one copy of
// it. It is for one reader at a time; the zero value is ready.
type Reader struct {
	slot  Slot   // of the last record of a task
	head  string // of its key, up to the index
	names []byte // of its namespace, job and group, as a record's slot begins

	shared *ohmv1.Placement // of the last placement
	raw    []byte           // that it was read from

	nodes map[NodeName]*placedOn
}

// Change is what stands under a key as of a revision, or that nothing does any more. Value is
// not kept. An error comes with the change, which has no value then; a kind of record that
// this release does not know has none either.
func (r *Reader) Change(key Key, value []byte, at Revision, deleted bool) (Change, error) {
	c := Change{Key: key, Deleted: deleted, Revision: at}
	if c.kind = r.task(&c); c.kind == KindUnknown { // rows keep parts of these keys
		c.Key = Key(strings.Clone(string(key)))
	}
	if deleted {
		return c, nil
	}
	var err error
	if c.kind == KindPlacement {
		c.placed, err = r.placement(&c, value)
	} else {
		kind := c.kind
		if kind == KindUnknown {
			kind = c.Key.Parse().Kind
		}
		c.Value, err = kind.read(value)
	}
	if err != nil {
		c.Value, c.placed = nil, nil
		return c, fmt.Errorf("record %s at revision %d cannot be read: %w", c.Key, at, err)
	}
	return c, nil
}

// read reads a record of this kind; nil if this release knows none.
func (k Kind) read(raw []byte) (proto.Message, error) {
	value := k.NewValue()
	switch v := value.(type) {
	case nil:
		return nil, nil
	case interface{ UnmarshalVTUnsafe([]byte) error }:
		// The message's strings point into its own copy of the record: one allocation for all.
		return value, v.UnmarshalVTUnsafe(bytes.Clone(raw))
	}
	return value, proto.Unmarshal(raw, value)
}

// task takes the key of a task's record apart; KindUnknown if it is another's.
func (r *Reader) task(c *Change) Kind {
	if rest, ok := strings.CutPrefix(string(c.Key), r.head); ok && r.head != "" {
		index, rest, ok1 := strings.Cut(rest, "@")
		version, what, ok2 := strings.Cut(rest, "/")
		if ok1 && ok2 && (what == "placement" || what == "status") {
			i, err1 := strconv.Atoi(index)
			v, err2 := strconv.ParseInt(version, 10, 64)
			if err1 != nil || err2 != nil {
				return KindUnknown
			}
			c.slot = r.slot
			c.slot.Index, c.slot.Version = i, v
			if what == "status" {
				return KindStatus
			}
			return KindPlacement
		}
	}
	if !strings.HasPrefix(string(c.Key), "tasks/") {
		return KindUnknown
	}
	k := c.Key.Parse()
	if k.Kind == KindUnknown {
		return KindUnknown
	}
	if s := &k.Slot; r.head == "" || s.Namespace != r.slot.Namespace || s.Job != r.slot.Job || s.Group != r.slot.Group {
		r.follow(s)
	}
	c.slot = r.slot
	c.slot.Index, c.slot.Version, c.attempt = k.Slot.Index, k.Slot.Version, k.Attempt
	return k.Kind
}

// follow keeps the names of a slot, in one piece of memory.
func (r *Reader) follow(s *Slot) {
	r.head = "tasks/" + s.Namespace + "/" + s.Job + "/" + s.Group + "/"
	rest := r.head[len("tasks/"):]
	cut := func(n int) string {
		name := rest[:n]
		rest = rest[n+1:]
		return name
	}
	r.slot = Slot{Namespace: cut(len(s.Namespace)), Job: cut(len(s.Job)), Group: cut(len(s.Group))}
	r.names = r.names[:0]
	for number, name := range [...]string{r.slot.Namespace, r.slot.Job, r.slot.Group} {
		if name != "" {
			r.names = protowire.AppendTag(r.names, protowire.Number(number+1), protowire.BytesType)
			r.names = protowire.AppendString(r.names, name)
		}
	}
}

// placedTask is a placement with the row of its slot, of which nothing else is stored: in one
// piece of memory, and never written to.
type placedTask struct {
	placement Placement
	task      Task
}

// The fields of ohm.v1.Placement that each placement of a transaction has for itself.
const (
	fieldSlot        = 1
	fieldAttempt     = 2
	fieldNode        = 3
	fieldJobRevision = 14
	fieldFence       = 18
	fieldRank        = 102

	ownFields = 1<<fieldSlot | 1<<fieldAttempt | 1<<fieldNode | 1<<fieldJobRevision | 1<<fieldFence
)

// own is the bit of a field that each placement has for itself; 0: it has not.
func own(field uint64) uint64 {
	if field == fieldRank {
		return 1 // no field has the number 0
	}
	return 1 << field & ownFields
}

// mostRuns of bytes between fields of its own has a placement that is taken apart.
const mostRuns = 8

// placement reads a placement; it says the same as the generated code.
func (r *Reader) placement(c *Change, raw []byte) (*placedTask, error) {
	placed := &placedTask{placement: Placement{Slot: c.slot, Revision: c.Revision}, task: Task{Slot: c.slot}}
	p := &placed.placement
	placed.task.Placement = p
	var buf [mostRuns][]byte
	runs, ok := r.takeApart(p, raw, buf[:0])
	if !ok { // rare, or not a placement at all
		m := new(ohmv1.Placement)
		if err := m.UnmarshalVTUnsafe(bytes.Clone(raw)); err != nil {
			return nil, err
		}
		p.keep(m)
		return placed, nil
	}
	if r.shared == nil || !joinedIs(runs, r.raw) {
		m := new(ohmv1.Placement)
		joined := bytes.Join(runs, nil)
		if err := m.UnmarshalVTUnsafe(joined); err != nil { // its strings point into joined
			return nil, err
		}
		r.shared, r.raw = m, joined
	}
	p.shared = r.shared
	return placed, nil
}

func joinedIs(runs [][]byte, whole []byte) bool {
	for _, run := range runs {
		if !bytes.HasPrefix(whole, run) {
			return false
		}
		whole = whole[len(run):]
	}
	return len(whole) == 0
}

// takeApart reads a placement's own fields and returns what stands between them; false if
// the row could not say all that they do.
func (r *Reader) takeApart(p *Placement, raw []byte, runs [][]byte) (_ [][]byte, ok bool) {
	seen, start := uint64(0), 0
	for at := 0; at < len(raw); {
		tag, n := protowire.ConsumeVarint(raw[at:])
		if n < 0 {
			return nil, false
		}
		var number uint64
		var value []byte
		var m int
		switch protowire.Type(tag & 7) {
		case protowire.VarintType:
			number, m = protowire.ConsumeVarint(raw[at+n:])
		case protowire.BytesType:
			value, m = protowire.ConsumeBytes(raw[at+n:])
		default:
			return nil, false
		}
		if m < 0 {
			return nil, false
		}
		end := at + n + m
		if bit := own(tag >> 3); bit != 0 {
			if seen&bit != 0 || !r.takeOwn(p, tag, number, value) {
				return nil, false
			}
			seen |= bit
			if start < at {
				runs = append(runs, raw[start:at])
			}
			start = end
		}
		at = end
	}
	if start < len(raw) {
		runs = append(runs, raw[start:])
	}
	const must = 1<<fieldSlot | 1<<fieldNode | 1<<fieldFence // a row cannot say that there is none
	return runs, seen&must == must
}

// takeOwn reads one of a placement's own fields.
func (r *Reader) takeOwn(p *Placement, tag, number uint64, value []byte) bool {
	switch tag {
	case fieldSlot<<3 | uint64(protowire.BytesType):
		rest, ok := bytes.CutPrefix(value, r.names)
		if !ok {
			return false
		}
		numbers, ok := twoNumbers(rest, 4)
		return ok && numbers == [2]uint64{uint64(p.Slot.Index), uint64(p.Slot.Version)}
	case fieldAttempt<<3 | uint64(protowire.VarintType):
		p.attempt = int32(number)
	case fieldNode<<3 | uint64(protowire.BytesType):
		p.node = r.node(value)
	case fieldJobRevision<<3 | uint64(protowire.VarintType):
		p.job = Revision(number)
	case fieldRank<<3 | uint64(protowire.VarintType):
		p.rank = int32(number)
	case fieldFence<<3 | uint64(protowire.BytesType):
		numbers, ok := twoNumbers(value, 1)
		p.compared, p.records = Revision(numbers[0]), int32(numbers[1])
		return ok
	default:
		return false
	}
	return true
}

// twoNumbers reads a message that has two numbers, in fields first and first+1, and nothing
// else.
func twoNumbers(raw []byte, first uint64) (numbers [2]uint64, ok bool) {
	for len(raw) > 0 {
		tag, n := protowire.ConsumeVarint(raw)
		if n < 0 || tag&7 != uint64(protowire.VarintType) {
			return numbers, false
		}
		i := tag>>3 - first
		if i > 1 { // another field
			return numbers, false
		}
		number, m := protowire.ConsumeVarint(raw[n:])
		if m < 0 {
			return numbers, false
		}
		numbers[i], raw = number, raw[n+m:]
	}
	return numbers, true
}

// mostNodes whose names are kept: more than any cell has.
const mostNodes = 1 << 17

// node is a node's name, the same piece of memory each time.
func (r *Reader) node(name []byte) *placedOn {
	n := r.nodes[NodeName(name)]
	if n == nil {
		if r.nodes == nil || len(r.nodes) >= mostNodes {
			r.nodes = map[NodeName]*placedOn{}
		}
		n = &placedOn{name: NodeName(name)}
		r.nodes[n.name] = n
	}
	return n
}
