package storetest

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// What this release does not know is kept and left alone.
func unknownLaws() []law {
	return []law{
		{"unknown/keys of a later release disturb nobody", func(c *cell) {
			s := c.side()
			raw := c.store.(RawWriter)
			keys := []cellstate.Key{"future/thing", "tasks/default/a/main/0@1/zone", "tasks/default/a/main/x/placement", "nodes/n1/more"}
			for _, key := range keys {
				if err := raw.PutRaw(c.ctx, key, []byte("\xff not a message")); err != nil {
					c.Fatal(err)
				}
			}
			c.Node(celltest.Node{Name: "n1"})
			c.Job(celltest.Job{Name: "a", CPU: 100})
			c.committed(c.commit(s, one("a", 0, "n1")(c.sync(s))))
			c.sameFences(s)
			seen := map[cellstate.Key]cellstate.Change{}
			for _, ch := range c.changes(c.start.Revision(), c.present()) {
				seen[ch.Key] = ch
			}
			for _, key := range keys {
				if ch := seen[key]; ch.Revision == 0 || ch.Deleted || ch.Record() != nil {
					c.Errorf("%s: %+v", key, ch)
				}
				c.refuses(cellstate.Write{Records: []cellstate.Record{{Key: key, Value: &ohmv1.Meta{}}}}) // it is still there
			}
		}},
		{"unknown/fields of a later release survive a rewrite", func(c *cell) {
			field := protowire.AppendString(protowire.AppendTag(nil, 9999, protowire.BytesType), "future")
			job, err := proto.Marshal(&ohmv1.Job{Spec: celltest.Job{Name: "a"}.Proto(), Version: 1})
			if err != nil {
				c.Fatal(err)
			}
			if err := c.store.(RawWriter).PutRaw(c.ctx, cellstate.JobKey(celltest.Name("a")), append(job, field...)); err != nil {
				c.Fatal(err)
			}
			c.Mark(celltest.Name("a"), func(j *ohmv1.Job) { j.Stopped = true })
			if got := c.Snapshot().Job(celltest.Name("a")).Record.ProtoReflect().GetUnknown(); string(got) != string(field) {
				c.Errorf("unknown fields %q, want %q", got, field)
			}
		}},
	}
}
