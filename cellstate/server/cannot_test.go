package server_test

import (
	"slices"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// TestSubmitSaysThatNobodyCan: a job that no node can run is stored, and whoever sent it is
// told at once; once one can, nothing is said.
func TestSubmitSaysThatNobodyCan(t *testing.T) {
	w := serve(t, nil)
	boxed := func(image string) *ohmv1.Submitted {
		t.Helper()
		s := spec(celltest.Job{Name: "boxed"})
		s.Groups[0].Box = &ohmv1.Box{Image: image, ReadOnlyRoot: true}
		r, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{s}})
		if err != nil {
			t.Fatal(err)
		}
		return r.GetJobs()[0]
	}
	if s := boxed("example.org/a:0"); len(s.GetNotices()) != 0 {
		t.Errorf("without a node it says %q", s.GetNotices())
	}
	w.cell.Node(celltest.Node{Name: "plain", Capabilities: []string{"user"}, Driver: "native"})
	w.cell.Node(celltest.Node{Name: "other", Capabilities: []string{"image-registry"}, Driver: "containerd"})
	w.cell.Node(celltest.Node{Name: "third", Driver: "native"})
	known := func(node cellstate.NodeName) {
		t.Helper()
		w.until(string(node)+" is known", func(s *cellstate.Snapshot) bool { return s.Node(node) != nil && s.Node(node).Facts != nil })
	}
	known("third")
	want := []string{"no node can run the tasks of group main: 1 of 3 nodes cannot: read-only-root (driver containerd); 2 of 3 nodes cannot: image-registry, read-only-root (driver native)"}
	if s := boxed("example.org/a:1"); !slices.Equal(s.GetNotices(), want) || s.GetVersion() != 2 {
		t.Errorf("it says %q, version %d", s.GetNotices(), s.GetVersion())
	}
	w.cell.Node(celltest.Node{Name: "able", Capabilities: []string{"image-registry", "read-only-root"}})
	known("able")
	if s := boxed("example.org/a:2"); len(s.GetNotices()) != 0 {
		t.Errorf("with a node that can it says %q", s.GetNotices())
	}
}
