package storetest

import (
	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// The store's own rules, below the transaction: guards, and each write alone.
func guardLaws() []law {
	meta := func(name, value string) cellstate.Record {
		return cellstate.Record{Key: cellstate.MetaKey(name), Value: &ohmv1.Meta{Value: value}}
	}
	return []law{
		{"guards/what each kind holds for", func(c *cell) {
			early := c.Put(meta("t/a", "1"))
			late := c.Put(meta("t/b", "1"))
			a, from, end := cellstate.MetaKey("t/a"), cellstate.Key("meta/t/"), cellstate.Key("meta/t0")
			nothing := cellstate.MetaKey("u")
			for name, g := range map[string]struct {
				guard cellstate.Guard
				holds bool
			}{
				"its revision":                  {cellstate.Guard{Key: a, Revision: early}, true},
				"another revision":              {cellstate.Guard{Key: a, Revision: late}, false},
				"nothing, but there is":         {cellstate.Guard{Key: a}, false},
				"nothing, and there is nothing": {cellstate.Guard{Key: nothing}, true},
				"a revision of nothing":         {cellstate.Guard{Key: nothing, Revision: early}, false},
				"not newer":                     {cellstate.Guard{Key: a, Revision: late, NotNewer: true}, true},
				"newer":                         {cellstate.Guard{Key: cellstate.MetaKey("t/b"), Revision: early, NotNewer: true}, false},
				"not newer, and nothing":        {cellstate.Guard{Key: nothing, Revision: early, NotNewer: true}, true},
				"nothing in range, but some":    {cellstate.Guard{Key: from, End: end}, false},
				"nothing in an empty range":     {cellstate.Guard{Key: "meta/u/", End: "meta/u0"}, true},
				"range not newer":               {cellstate.Guard{Key: from, End: end, Revision: late, NotNewer: true}, true},
				"range with one newer":          {cellstate.Guard{Key: from, End: end, Revision: early, NotNewer: true}, false},
				"empty range not newer":         {cellstate.Guard{Key: "meta/u/", End: "meta/u0", Revision: 1, NotNewer: true}, true},
			} {
				w := cellstate.Write{Guards: []cellstate.Guard{g.guard}}
				w.Records = []cellstate.Record{meta("probe", name)}
				_, w.Records[0].Read = c.Snapshot().Meta("probe")
				out, err := c.store.Commit(c.ctx, w)
				if err != nil {
					c.Fatal(err)
				}
				if applied := out.Applied[0] != 0; applied != g.holds {
					c.Errorf("%s: %+v applied: %v", name, g.guard, applied)
				}
			}
		}},
		{"guards/each write applies alone, wholly or not at all", func(c *cell) {
			stands := c.Put(meta("stands", "1"), meta("other", "1"))
			before := c.Snapshot()
			out, err := c.store.Commit(c.ctx,
				cellstate.Write{Records: []cellstate.Record{meta("a", "1"), meta("b", "1")}},
				cellstate.Write{Records: []cellstate.Record{meta("c", "1"), meta("other", "2")}}, // it exists
				cellstate.Write{Records: []cellstate.Record{{Key: cellstate.MetaKey("stands"), Read: stands}}},
			)
			if err != nil {
				c.Fatal(err)
			}
			if out.Applied[0] <= before.Revision() || out.Applied[1] != 0 || out.Applied[2] == 0 || out.Revision < out.Applied[0] {
				c.Errorf("outcome %+v", out)
			}
			after := c.Snapshot()
			for name, want := range map[string]bool{"a": true, "b": true, "c": false, "stands": false} {
				if m, at := after.Meta(name); (m != nil) != want || (want && at != out.Applied[0]) {
					c.Errorf("%s is %v at %d", name, m, at)
				}
			}
		}},
		{"guards/all are judged on the state before the request", func(c *cell) {
			b := meta("b", "1")
			out, err := c.store.Commit(c.ctx,
				cellstate.Write{Records: []cellstate.Record{meta("a", "1")}},
				cellstate.Write{Guards: []cellstate.Guard{{Key: cellstate.MetaKey("a")}}, Records: []cellstate.Record{b}})
			if err != nil || out.Applied[0] == 0 || out.Applied[1] == 0 {
				c.Errorf("outcome %+v, error %v", out, err)
			}
		}},
		{"guards/a key or a fence in two writes refuses the whole request", func(c *cell) {
			c.Node(celltest.Node{Name: "n1"})
			before := c.Snapshot()
			never := cellstate.Guard{Key: cellstate.MetaKey("nothing"), Revision: 1}
			fence := []cellstate.FenceBump{{Node: "n1", Compared: before.Node("n1").Fence}}
			for name, writes := range map[string][]cellstate.Write{
				"key":                    {{Records: []cellstate.Record{meta("a", "1")}}, {Records: []cellstate.Record{meta("a", "2")}}},
				"key, one never applies": {{Records: []cellstate.Record{meta("a", "1")}}, {Guards: []cellstate.Guard{never}, Records: []cellstate.Record{meta("a", "2")}}},
				"fence": {{Fences: fence, Records: []cellstate.Record{meta("a", "1")}},
					{Fences: fence, Records: []cellstate.Record{meta("b", "1")}}},
			} {
				if out, err := c.store.Commit(c.ctx, writes...); err == nil {
					c.Errorf("%s: outcome %+v", name, out)
				}
			}
			if m, _ := c.Snapshot().Meta("a"); m != nil {
				c.Error("a refused request wrote something")
			}
		}},
		{"guards/what is stored cannot be changed from outside", func(c *cell) {
			rec := meta("a", "1")
			c.Put(rec)
			rec.Value.(*ohmv1.Meta).Value = "2"
			m, _ := c.Snapshot().Meta("a")
			m.Value = "3"
			if m, _ := c.Snapshot().Meta("a"); m.GetValue() != "1" {
				c.Errorf("the store holds %q", m.GetValue())
			}
		}},
	}
}
