package ability

import (
	"slices"
	"testing"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestNeeded(t *testing.T) {
	if !slices.IsSorted(needed[:]) {
		t.Errorf("not sorted, as Names are to be: %v", needed)
	}
	if names := Of([]string{Exec, "of a later release", User, Image}).Names(); !slices.Equal(names, []string{Image, User}) {
		t.Errorf("names %v", names)
	}
}

// TestOlderNode: a node of a release that knew no images takes what it took then, and
// nothing else; one of images alone does not take what has none.
func TestOlderNode(t *testing.T) {
	plain, image := OfGroup(&ohmv1.Group{}), OfGroup(&ohmv1.Group{Box: &ohmv1.Box{Image: "tar:/a"}})
	for _, c := range []struct {
		can  []string
		of   Set
		want string
	}{
		{nil, plain, ""},
		{[]string{Memory, Namespaces}, plain, ""},
		{[]string{HostRoot, Image}, plain, ""},
		{[]string{Image, Registry}, plain, HostRoot},
		{[]string{Registry}, plain, HostRoot},
		{nil, image, Image},
		{[]string{Image}, image, ""},
	} {
		if lacks := c.of.Without(Of(c.can)).String(); lacks != c.want {
			t.Errorf("a node that can %v lacks %q of %v, want %q", c.can, lacks, c.of, c.want)
		}
	}
}

// TestOfGroup: each field asks for its ability, in the group's own box and in a container's.
func TestOfGroup(t *testing.T) {
	for want, b := range map[string]*ohmv1.Box{
		HostRoot:                   {},
		Registry:                   {Image: "example.org/a:1"},
		Image:                      {Image: "oci:/a"},
		HostRoot + ", " + User:     {User: "1"},
		HostRoot + ", " + Mount:    {Mounts: []*ohmv1.Mount{{Target: "/a"}}},
		HostRoot + ", " + ReadOnly: {ReadOnlyRoot: true},
		Caps + ", " + HostRoot:     {AddCapabilities: []string{"CAP_KILL"}},
		Confine + ", " + HostRoot:  {Confined: true},
	} {
		if got := OfGroup(&ohmv1.Group{Box: b}).String(); got != want {
			t.Errorf("%v needs %q, want %q", b, got, want)
		}
		several := OfGroup(&ohmv1.Group{Containers: []*ohmv1.Container{{Box: &ohmv1.Box{Image: "tar:/x"}}, {Box: b}}})
		if several != OfGroup(&ohmv1.Group{Box: b})|of(Containers)|of(Image) {
			t.Errorf("%v in a container needs %v", b, several)
		}
	}
	limits := OfGroup(&ohmv1.Group{CpuMaxMilli: 1, Pids: 1}).String()
	if limits != CPUMax+", "+Pids+", "+HostRoot {
		t.Errorf("limits need %q", limits)
	}
}
