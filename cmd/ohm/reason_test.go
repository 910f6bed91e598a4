package main

import (
	"testing"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestReasonOf(t *testing.T) {
	for _, c := range []struct {
		conflict *ohmv1.ConflictView
		want     string
	}{
		{&ohmv1.ConflictView{Reason: "NodeGone"}, "NodeGone"},
		{&ohmv1.ConflictView{Reason: "Resources", Dimension: "cpu", Wanted: "3", Free: "1"}, "Resources: 3 cpu wanted, 1 free"},
		{&ohmv1.ConflictView{Reason: "Resources", Dimension: "memory", Wanted: "64Gi", Free: "24585780Ki"}, "Resources: 64Gi memory wanted, 23.4Gi free"},
		{&ohmv1.ConflictView{Reason: "Resources", Dimension: "disk", Wanted: "64Gi", Free: "65535Mi"}, "Resources: 64Gi disk wanted, 65535Mi free"},
		{&ohmv1.ConflictView{Reason: "Port", Dimension: "8080", Wanted: "http"}, "Port: http 8080 wanted"},
		{&ohmv1.ConflictView{Reason: "Constraint", Dimension: "zone"}, "Constraint: zone"},
	} {
		if got := reasonOf(c.conflict); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
