package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// lost is more replies than any test waits for.
const lost = 1 << 40

// TestLostReplies loses replies in a row, that of the request first and then those of the
// questions for its fate. The answer is that of a reply, or unknown.
func TestLostReplies(t *testing.T) {
	for _, drops := range []int64{1, 2, 3, 5} {
		t.Run(fmt.Sprint(drops), func(t *testing.T) {
			s := open(t, Config{})
			stands, err := s.Commit(t.Context(), cellstate.Write{Records: []cellstate.Record{numbered(0), numbered(1)}})
			if err != nil {
				t.Fatal(err)
			}
			writes := []cellstate.Write{
				{Records: []cellstate.Record{numbered(2)}},
				{Records: []cellstate.Record{{Key: numbered(0).Key, Read: stands.Applied[0]}}},                                               // only deletes
				{Guards: []cellstate.Guard{{Key: "meta/n/00001", End: "meta/n/00001\x00", Revision: 1 << 60, NotNewer: true, Delete: true}}}, // only deletes a range
				{Guards: []cellstate.Guard{{Key: "meta/n/", End: "meta/n0", Delete: true}}},                                                  // refused: the range is not empty
				{Guards: []cellstate.Guard{{Key: "meta/nothing"}}},                                                                           // changes nothing
			}
			before, err := s.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.drop.Store(drops)
			out, err := s.Commit(t.Context(), writes...)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []bool{true, true, true, false, true} {
				if (out.Applied[i] != 0) != want || (want && out.Applied[i] != before.Revision()+1) {
					t.Errorf("write %d applied at %d, the store was at %d", i, out.Applied[i], before.Revision())
				}
			}
			after, err := s.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []bool{false, false, true} {
				if m, _ := after.Meta(fmt.Sprintf("n/%05d", i)); (m != nil) != want {
					t.Errorf("record %d stands: %v", i, m != nil)
				}
			}
			// The lane goes on.
			for i := range 2 * laneCount {
				if out, err := s.Commit(t.Context(), cellstate.Write{Records: []cellstate.Record{numbered(10 + i)}}); err != nil || out.Applied[0] == 0 {
					t.Errorf("later: %+v, %v", out, err)
				}
			}
		})
	}
}

// TestAVoidedRequest gives up a request that was never applied, loses the reply to that,
// and sends it again.
func TestAVoidedRequest(t *testing.T) {
	s := open(t, Config{})
	requests, err := s.requests([]cellstate.Write{{Records: []cellstate.Record{numbered(0)}}})
	if err != nil {
		t.Fatal(err)
	}
	l := <-s.lanes
	if err := s.readLane(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	stale := *l
	s.drop.Store(2)
	incarnation, cluster := s.identity()
	if f, settled := s.resolve(t.Context(), l, requests[0], incarnation, cluster); f.err != nil || settled {
		t.Fatalf("%+v, settled %v", f, settled)
	}
	// The request arrives late, on the lane as it was.
	var reply txnReply
	if _, err := s.request(t.Context(), &stale, incarnation, requests[0], &reply); err != nil || reply.succeeded {
		t.Fatalf("applied late: %+v, %v", reply, err)
	}
	again := *l
	if err := s.readLane(t.Context(), &again); err != nil || again != *l {
		t.Errorf("the lane reads %+v, %v; want %+v", again, err, *l)
	}
	if _, err := s.request(t.Context(), l, incarnation, requests[0], &reply); err != nil || !reply.succeeded {
		t.Fatalf("not applied: %+v, %v", reply, err)
	}
	l.unread = true
	s.lanes <- l
}

// TestTheCallerIsNotKeptWaiting gives up a commit whose replies never come: its fate is
// asked for no longer than one timeout.
func TestTheCallerIsNotKeptWaiting(t *testing.T) {
	const timeout = 300 * time.Millisecond
	s := open(t, Config{Timeout: timeout})
	s.drop.Store(lost)
	ctx, cancel := context.WithTimeout(t.Context(), timeout/3)
	defer cancel()
	begun := time.Now()
	_, err := s.Commit(ctx, cellstate.Write{Records: []cellstate.Record{numbered(0)}})
	if !errors.Is(err, cellstate.ErrUnknown) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begun); took > 5*timeout {
		t.Errorf("it took %s", took)
	}
	// The lane is read again before it is used.
	s.drop.Store(0)
	for i := range 2 * laneCount {
		if out, err := s.Commit(t.Context(), cellstate.Write{Records: []cellstate.Record{numbered(1 + i)}}); err != nil || out.Applied[0] == 0 {
			t.Errorf("later: %+v, %v", out, err)
		}
	}
}

// many are writes that no single request of 128 operations holds.
func many(n int) []cellstate.Write {
	writes := make([]cellstate.Write, n)
	for i := range writes {
		writes[i].Records = []cellstate.Record{numbered(i)}
	}
	return writes
}

func TestACommitOfManyRequests(t *testing.T) {
	s := open(t, Config{})
	before, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Commit(t.Context(), many(2000)...)
	if err != nil {
		t.Fatal(err)
	}
	distinct := map[cellstate.Revision]bool{}
	for i, at := range out.Applied {
		if at <= before.Revision() || at > out.Revision {
			t.Fatalf("write %d applied at %d of %d to %d", i, at, before.Revision(), out.Revision)
		}
		distinct[at] = true
	}
	if len(distinct) < 2000/128 {
		t.Errorf("%d requests", len(distinct))
	}
	after, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range out.Applied {
		if _, rev := after.Meta(fmt.Sprintf("n/%05d", i)); rev != at {
			t.Errorf("record %d stands at %d, the commit said %d", i, rev, at)
		}
	}
}

// TestAnErrorAfterAPartWasApplied: an error other than ErrUnknown says that nothing was.
func TestAnErrorAfterAPartWasApplied(t *testing.T) {
	s := open(t, Config{})
	const noLease = 12345
	all := many(500)
	for i := range all {
		all[i].Records[0].Lease = noLease
	}
	if _, err := s.Commit(t.Context(), all...); !errors.Is(err, cellstate.ErrNotFound) || errors.Is(err, cellstate.ErrUnknown) {
		t.Errorf("nothing can be applied: %v", err)
	}
	for _, bad := range []int{0, 499} {
		some := many(500)
		for i := range some {
			some[i].Records[0].Key = cellstate.MetaKey(fmt.Sprintf("bad%d/%d", bad, i))
		}
		some[bad].Records[0].Lease = noLease
		out, err := s.Commit(t.Context(), some...)
		if !errors.Is(err, cellstate.ErrUnknown) || !errors.Is(err, cellstate.ErrNotFound) {
			t.Errorf("a part can be applied: %v", err)
		}
		stored, err := s.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, at := range out.Applied {
			if _, rev := stored.Meta(fmt.Sprintf("bad%d/%d", bad, i)); rev != at {
				t.Errorf("record %d stands at %d, the commit said %d", i, rev, at)
			}
		}
		if out.Applied[bad] != 0 || out.Applied[250] == 0 {
			t.Errorf("the bad one at %d, another at %d", out.Applied[bad], out.Applied[250])
		}
	}
	twice := many(500)
	twice[499] = twice[0]
	if out, err := s.Commit(t.Context(), twice...); !errors.Is(err, cellstate.ErrRequestLimit) || out.Revision != 0 {
		t.Errorf("a key twice, in two requests: %+v, %v", out, err)
	}
}

func TestADeletedKeyWithoutARange(t *testing.T) {
	s := open(t, Config{})
	if _, err := s.Commit(t.Context(), cellstate.Write{Records: []cellstate.Record{numbered(0), numbered(1)}}); err != nil {
		t.Fatal(err)
	}
	now, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, read := now.Meta("n/00000")
	out, err := s.Commit(t.Context(), cellstate.Write{
		Guards:  []cellstate.Guard{{Key: numbered(0).Key, Revision: read, Delete: true}},
		Records: []cellstate.Record{{Key: cellstate.MetaKey("y"), Value: &ohmv1.Meta{}}},
	})
	if err != nil || out.Applied[0] == 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	after, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone, _ := after.Meta("n/00000")
	left, _ := after.Meta("n/00001")
	if gone != nil || left == nil {
		t.Errorf("deleted: %v, another stands: %v", gone == nil, left != nil)
	}
}
