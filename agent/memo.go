package agent

import (
	"encoding/json"
	"fmt"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/ohmcell/ohm/agent/health"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// memo is what the agent remembers of one attempt, in its journal too. Without it the
// machine still tells most of it; what it alone knows is that a task has run of which the
// machine has no trace, why a task was stopped, and how big one is that is not desired
// any more. Its messages are never written to.
type memo struct {
	Run       *ohmv1.Assignment // the last one: placement, stop policy, time limit
	Started   bool              // it was started; never again
	StopAsked time.Time         // when it was first asked to end; zero: never
	StopCause string            // why; empty: not desired any more
	StopWhy   string            // more of it, for people
	Ready     health.Readiness  // what its readiness check said last
	End       *ohmv1.Status     // how it ended, for good
	Kept      time.Time         // since when nothing but its logs is left; zero: more is
	Expired   time.Time         // when they were removed, and all else was forgotten; zero: they were not
}

// essence is what a memo needs of an assignment.
func essence(a *ohmv1.Assignment) *ohmv1.Assignment {
	return &ohmv1.Assignment{Id: a.GetId(), Placement: a.GetPlacement(), Stop: a.GetStop(), MaxRuntime: a.GetMaxRuntime()}
}

// entryJSON is a memo as the journal holds it.
type entryJSON struct {
	Run       json.RawMessage  `json:"run,omitempty"`
	Started   bool             `json:"started,omitempty"`
	StopAsked time.Time        `json:"stopAsked,omitzero"`
	StopCause string           `json:"stopCause,omitempty"`
	StopWhy   string           `json:"stopWhy,omitempty"`
	Ready     health.Readiness `json:"ready,omitempty"`
	End       json.RawMessage  `json:"end,omitempty"`
	Kept      time.Time        `json:"kept,omitzero"`
	Expired   time.Time        `json:"expired,omitzero"`
}

func (m memo) encode() ([]byte, error) {
	e := entryJSON{Started: m.Started, StopAsked: m.StopAsked, StopCause: m.StopCause, StopWhy: m.StopWhy, Ready: m.Ready, Kept: m.Kept, Expired: m.Expired}
	var err error
	if m.Run != nil {
		if e.Run, err = protojson.Marshal(m.Run); err != nil {
			return nil, err
		}
	}
	if m.End != nil {
		if e.End, err = protojson.Marshal(m.End); err != nil {
			return nil, err
		}
	}
	return json.Marshal(e)
}

func decodeMemo(data []byte) (memo, error) {
	var e entryJSON
	if err := json.Unmarshal(data, &e); err != nil {
		return memo{}, fmt.Errorf("journal entry: %w", err)
	}
	m := memo{Started: e.Started, StopAsked: e.StopAsked, StopCause: e.StopCause, StopWhy: e.StopWhy, Ready: e.Ready, Kept: e.Kept, Expired: e.Expired}
	lenient := protojson.UnmarshalOptions{DiscardUnknown: true} // of a later release
	if e.Run != nil {
		m.Run = new(ohmv1.Assignment)
		if err := lenient.Unmarshal(e.Run, m.Run); err != nil {
			return memo{}, fmt.Errorf("journal entry: %w", err)
		}
	}
	if e.End != nil {
		m.End = new(ohmv1.Status)
		if err := lenient.Unmarshal(e.End, m.End); err != nil {
			return memo{}, fmt.Errorf("journal entry: %w", err)
		}
	}
	return m, nil
}

// remember puts a changed memo into the journal; flush makes it durable.
func (l *loop) remember(e *entry, m memo) {
	if m == e.memo {
		return
	}
	e.memo = m
	if l.book == nil {
		return
	}
	data, err := m.encode()
	if err != nil {
		l.Log.Error("a task cannot be written down", zap.String("task", e.id), zap.Error(err))
		return
	}
	l.book.Put(e.id, data)
}

func (l *loop) flush() {
	if l.book != nil {
		_ = l.book.Flush() // it says so itself, and goes on
	}
}
