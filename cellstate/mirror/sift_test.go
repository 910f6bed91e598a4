package mirror

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func put(name string, at cellstate.Revision) cellstate.Change {
	return cellstate.Change{Key: cellstate.MetaKey(name), Value: &ohmv1.Meta{Value: fmt.Sprint(at)}, Revision: at}
}

func gone(name string, at cellstate.Revision) cellstate.Change {
	return cellstate.Change{Key: cellstate.MetaKey(name), Deleted: true, Revision: at}
}

func TestSift(t *testing.T) {
	s, err := cellstate.NewSnapshot(10, []cellstate.Change{put("a", 5), put("b", 8)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	type list = []cellstate.Change
	unknown := cellstate.Change{Key: "later/release", Revision: 7}
	for _, c := range []struct {
		name     string
		changes  list
		kept     string
		doubtful string
	}{
		{"nothing", nil, "", ""},
		{"news", list{put("a", 11), gone("b", 11), put("c", 12)}, "a11 b11 c12", ""},
		{"out of order", list{put("a", 12), put("c", 13), put("b", 11), gone("c", 12)}, "b11 a12 c12 c13", ""},
		{"one event twice in a row", list{put("a", 11), put("a", 11)}, "a11", ""},
		{"one event twice apart", list{put("a", 11), put("b", 11), put("a", 11), put("c", 12), put("b", 11)}, "a11 b11 c12", ""},
		{"a repeat", list{put("a", 5), put("c", 11)}, "c11", ""},
		{"older than what is known", list{put("a", 3), put("b", 8), gone("b", 7)}, "", ""},
		{"an end of what is not there", list{gone("c", 9)}, "", ""},
		{"a repeat of what has gone since", list{put("c", 7), gone("c", 9), put("c", 6)}, "", ""},
		{"newer than what is known, but late", list{put("a", 6), put("c", 11)}, "c11", "a"},
		{"a record that should be there", list{put("c", 9)}, "", "c"},
		{"a record that should not be there", list{gone("b", 9)}, "", "b"},
		{"of another release", list{unknown}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := fmt.Sprint(names(c.changes))
			got, doubt := sift(s, cellstate.Batch{Revision: 13, Changes: c.changes})
			if names(got.Changes) != c.kept || got.Revision != 13 {
				t.Errorf("kept %q, want %q", names(got.Changes), c.kept)
			}
			if (doubt == nil) != (c.doubtful == "") || doubt != nil && doubt.Key != cellstate.MetaKey(c.doubtful) {
				t.Errorf("doubt %v, want %q", doubt, c.doubtful)
			}
			if after := fmt.Sprint(names(c.changes)); after != before {
				t.Errorf("the store's own batch was changed: %s", after)
			}
		})
	}
}

func names(changes []cellstate.Change) string {
	var out []string
	for _, c := range changes {
		out = append(out, fmt.Sprint(strings.TrimPrefix(string(c.Key), "meta/"), c.Revision))
	}
	return strings.Join(out, " ")
}
